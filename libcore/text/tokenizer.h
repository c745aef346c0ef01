// Converts text to token ids and back: the interface of all tokenizers.
//
//   auto tokenizer = load_tokenizer(options);
//   auto encoder = tokenizer->make_encoder();      // one per thread: it caches words
//   encoder->append("Hello world", ids);
//   std::string text = tokenizer->decode(ids);     // bytes: single tokens may not be UTF-8 (base/utf8.h)
//
// Special tokens written in text (<|endoftext|>) are ordinary text unless TokenizerOptions::parse_special_tokens is
// set, so that data cannot forge the end of a document. HuggingFaceTokenizer, however, always finds added tokens in
// text, because its ids must equal Hugging Face's. Errors in a tokenizer's files are Error(bad_data) with the file
// name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// The working state of a thread that encodes. Must not outlive the tokenizer.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Appends the ids of one text. May throw Error(bad_data) for a text that the tokenizer cannot encode; ids of its
  /// beginning may then have been appended.
  virtual void append(std::string_view text, std::vector<std::int32_t>& ids) = 0;
};

/// The size of an encoder's word cache: negligible, or megabytes (SentencePiece: 2 MiB; byte-level BPE: 3 MiB, and 17
/// MiB that a tokenizer's large encoders share).
enum class EncoderMemory { small, large };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::unique_ptr<Encoder> make_encoder(EncoderMemory memory = EncoderMemory::large) const = 0;
  /// Encodes one text. To encode many texts, keep an encoder instead.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Throws Error(bad_data) for an id that is not in the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// Returns the vocabulary size. Ids are 0 to vocab_size() - 1.
  virtual std::int64_t vocab_size() const = 0;
  /// Returns the end-of-document token. Throws Error(bad_data) if there is none.
  virtual std::int32_t eod() const = 0;
  /// Returns the padding token, which training excludes from the loss. Returns -1 if there is none, or if it is also
  /// another special token. (In many files, the padding token is the end-of-document token.)
  virtual std::int32_t pad() const { return -1; }
  /// Returns the name in Megatron-LM, such as "GPT2BPETokenizer".
  virtual std::string type() const = 0;
  /// Returns a hash. If two tokenizers have the same hash, ids have the same meaning, and text without special tokens
  /// is encoded in the same way.
  virtual std::uint64_t hash() const = 0;
  /// Writes the files from which find_tokenizer() restores this tokenizer into an existing folder. transformers can
  /// also read these files, except TikTokenizer's. NullTokenizer has no files.
  virtual void save(const std::string& folder) const = 0;
};

/// Settings for TikTokenizer in addition to its file (text/tiktoken.h). Defaults are the same as in Megatron-LM.
struct TiktokenOptions {
  std::string pattern = "v2";
  std::int64_t num_special_tokens = 1000;
  std::vector<std::string> special_tokens = {"<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"};
};

struct TokenizerOptions {
  std::string type;                                // empty: GPT2BPETokenizer
  std::string vocab_file, merge_file;              // GPT2BPETokenizer
  std::string tokenizer_model;                     // HuggingFaceTokenizer: tokenizer.json or its folder; TikTokenizer;
                                                   // SentencePiece types: tokenizer.model or its folder
  std::optional<std::int64_t> vocab_size;          // NullTokenizer, TikTokenizer
  TiktokenOptions tiktoken;                        // TikTokenizer
  std::optional<std::int64_t> null_tokenizer_eod;  // NullTokenizer; vocab_size - 1 if empty
  bool hf_special_tokens = false;                  // HuggingFaceTokenizer: add the post-processor's special tokens
  bool legacy_tokenizer = false;                   // text/sentencepiece_tokenizer.h
  std::int64_t vocab_extra_ids = 0;                // text/sentencepiece_tokenizer.h
  bool parse_special_tokens = false;               // encode special tokens in text as tokens

  /// True if a tokenizer's type or file is set.
  bool names_tokenizer() const {
    return !type.empty() || !vocab_file.empty() || !merge_file.empty() || !tokenizer_model.empty();
  }
};

/// `tokenizer_model` may be a model's name in the Hugging Face hub's cache (base/hub_cache.h). Throws Error(usage) for
/// an unknown type, and for options that are missing or contradict each other, Error(io) if a file cannot be read, and
/// Error(bad_data) for an invalid file.
std::unique_ptr<Tokenizer> load_tokenizer(const TokenizerOptions& options);

/// Returns the files that load_tokenizer reads, including optional ones that may not exist.
std::vector<std::string> tokenizer_files(const TokenizerOptions& options);

/// Finds the tokenizer in a model folder: SentencePiece's tokenizer.model, otherwise tokenizer.json, otherwise
/// vocab.json and merges.txt, otherwise the files that TikTokenizer saved. Returns nothing if the folder has none of
/// these.
std::optional<TokenizerOptions> find_tokenizer(const std::string& model_folder);

}  // namespace mtl
