// Converts text to token ids and back: the interface of all tokenizers.
//
//   auto tokenizer = load_tokenizer(options);
//   auto encoder = tokenizer->make_encoder();      // one per thread: it caches words
//   encoder->append("Hello world", ids);
//   std::string text = tokenizer->decode(ids);     // bytes: single tokens may not be UTF-8 (base/utf8.h)
//
// Special strings in a text (<|endoftext|>) are ordinary text, so that data cannot forge the end of a document, unless
// TokenizerOptions::parse_special_tokens is set; but HuggingFaceTokenizer always finds added tokens in a text, because
// its ids have to be Hugging Face's. Errors are Error(bad_data) and name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// The working state of one thread that encodes. It must not outlive its tokenizer.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Appends the ids of one text.
  virtual void append(std::string_view text, std::vector<std::int32_t>& ids) = 0;
};

/// The size of an encoder's cache of words: negligible, or megabytes (SentencePiece: 2 MiB; byte-level BPE: 3 MiB, and
/// 17 MiB that the large encoders of a tokenizer share).
enum class EncoderMemory { small, large };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::unique_ptr<Encoder> make_encoder(EncoderMemory memory = EncoderMemory::large) const = 0;
  /// For a few texts; for many, keep an encoder.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Throws Error(bad_data) for an id that is not in the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// Ids are 0 to vocab_size() - 1.
  virtual std::int64_t vocab_size() const = 0;
  /// Returns the end-of-document token. Throws Error(bad_data) if there is none.
  virtual std::int32_t eod() const = 0;
  /// Returns the padding token, which training excludes from the loss; -1 if there is none, or if it is also another
  /// special token (in many files, pad and end are one).
  virtual std::int32_t pad() const { return -1; }
  /// Megatron's name, such as "GPT2BPETokenizer".
  virtual std::string type() const = 0;
  /// Two tokenizers with the same hash give ids the same meaning, and encode alike, apart from special strings.
  virtual std::uint64_t hash() const = 0;
  /// Writes into an existing folder the files from which find_tokenizer restores this tokenizer; transformers reads
  /// them, too, except TikTokenizer's. NullTokenizer has none.
  virtual void save(const std::string& folder) const = 0;
};

/// Settings of TikTokenizer in addition to its file (text/tiktoken.h); the defaults are Megatron's.
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
  std::optional<std::int64_t> null_tokenizer_eod;  // NullTokenizer; vocab_size - 1 when empty
  bool hf_special_tokens = false;                  // HuggingFaceTokenizer: with the post-processor's special tokens
  bool legacy_tokenizer = false;                   // text/sentencepiece_tokenizer.h
  std::int64_t vocab_extra_ids = 0;                // text/sentencepiece_tokenizer.h
  bool parse_special_tokens = false;               // special strings in a text become their tokens

  /// True if a type or a file of a tokenizer is set.
  bool names_tokenizer() const {
    return !type.empty() || !vocab_file.empty() || !merge_file.empty() || !tokenizer_model.empty();
  }
};

/// Throws Error(usage) for an unknown type or missing options, Error(bad_data) for a bad file.
std::unique_ptr<Tokenizer> load_tokenizer(const TokenizerOptions& options);

/// Returns the files that load_tokenizer reads, including optional ones that may not exist.
std::vector<std::string> tokenizer_files(const TokenizerOptions& options);

/// Finds the tokenizer of a model folder: its SentencePiece tokenizer.model, else its tokenizer.json, else its
/// vocab.json and merges.txt, else the files that TikTokenizer saved. Returns nothing if there are none of these.
std::optional<TokenizerOptions> find_tokenizer(const std::string& model_folder);

}  // namespace mtl
