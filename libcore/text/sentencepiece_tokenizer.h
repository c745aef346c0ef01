// SentencePiece models, used like Megatron-LM's SentencePieceTokenizer, GPTSentencePieceTokenizer and Llama2Tokenizer.
//
// All three produce the same ids as SentencePieceProcessor.encode and the same text as SentencePieceProcessor.decode.
// The vocabulary consists of the model's pieces, and the end-of-document token is its end-of-sentence piece. Control
// pieces in text are ordinary characters; user-defined symbols are always found.
//
// With `legacy`, two of them behave as in Megatron-LM before February 2026 (core 0.16 and earlier):
// - Llama2Tokenizer adds the beginning-of-sentence id before every text.
// - SentencePieceTokenizer adds <CLS>, <SEP>, <EOD>, <MASK>, <PAD>, <BOS>, <EOS> (the last three unless the model has
//   such control pieces) and `vocab_extra_ids` tokens <extra_id_0>... after the vocabulary, unless the vocabulary
//   contains them. It encodes these tokens' strings in text as these tokens, encodes the text between them separately,
//   and uses <EOD> as the end-of-document token.
//
// save() writes tokenizer.model as it was read, and a tokenizer_config.json with which transformers opens the model: a
// BPE model as LlamaTokenizer, a unigram model as T5Tokenizer. These are the closest classes: the first differs by a
// blank at the start of the text, and the second has no byte fallback. The library sentencepiece produces exactly our
// ids.
#pragma once

#include <string>
#include <vector>

#include "text/sentencepiece_encoder.h"
#include "text/tokenizer.h"

namespace mtl {

class SentencePieceTokenizer : public Tokenizer {
 public:
  /// A special string of the legacy SentencePieceTokenizer.
  struct Special {
    std::string text;
    std::int32_t id;
  };
  /// `content` is the contents of the model file; `source` is its name for error messages. Of the options, uses the
  /// type, legacy_tokenizer and vocab_extra_ids. Throws Error(bad_data) for an invalid model.
  SentencePieceTokenizer(std::string content, const std::string& source, const TokenizerOptions& options);

  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int64_t vocab_size() const override;
  std::int32_t eod() const override;
  std::int32_t pad() const override;
  std::string type() const override { return options_.type; }
  std::uint64_t hash() const override;
  /// Also writes the options, for find_sentencepiece().
  void save(const std::string& folder) const override;

 private:
  void add_legacy_tokens();
  std::string decode_pieces(std::span<const std::int32_t> ids) const;

  std::string content_;
  TokenizerOptions options_;
  SentencePieceSegmenter segmenter_;
  SentencePieceNormalizer denormalizer_;
  std::vector<Special> specials_;         // legacy SentencePieceTokenizer, in Megatron's order
  std::vector<std::int32_t> special_of_;  // by id: index in specials_, or -1
};

/// Returns the model file: `path`, or PATH/tokenizer.model if `path` is a folder.
std::string sentencepiece_file(const std::string& path);

/// Opens any of the three tokenizers. options.tokenizer_model is a model file, or a folder with tokenizer.model.
std::unique_ptr<Tokenizer> load_sentencepiece(const TokenizerOptions& options);

/// Finds the tokenizer.model in a folder, and the options that save() wrote. Returns nothing if there is no such
/// model.
std::optional<TokenizerOptions> find_sentencepiece(const std::string& folder);

}  // namespace mtl
