// Megatron-LM's TikTokenizer: byte-level BPE by rank. A pre-token that is a token becomes that token. Otherwise,
// the adjacent pair that spells the token with the lowest rank, or the leftmost such pair, is merged repeatedly until
// no pair spells a token.
//
// The file is either a JSON list as in Megatron-LM, [{"rank": 0, "token_bytes": base64, "token_str": ...}, ...], with
// rank i at index i, or a tiktoken file, whose lines consist of base64, a blank and the rank. Ids 0 to
// num_special_tokens - 1 are special tokens: first the named ones, then <SPECIAL_i>. Rank r has id num_special_tokens +
// r. Only the file's first vocab_size - num_special_tokens ranks are used. vocab_size defaults to 131072, or less if
// the file has fewer ranks. The end-of-document token is </s>. If num_special_tokens is 0, ids equal ranks, without an
// end-of-document token. Every single byte must be a token.
//
// The patterns are Megatron-LM's v1 (letters) and v2 (cased words, slashes). Both split numbers into digits
// (text/split_pattern.h).
#pragma once

#include <optional>

#include "text/added_tokens.h"
#include "text/bpe_model.h"
#include "text/splitter.h"
#include "text/token_bytes.h"
#include "text/tokenizer.h"

namespace mtl {

/// Throws Error(usage) if options are out of range or contradict each other.
void check_tiktoken_options(const TiktokenOptions& options);

/// Returns tokens' bytes by rank; an entry is empty if no token has that rank. Throws Error(bad_data) with a message
/// that starts with `path`.
std::vector<std::string> parse_tiktoken_ranks(std::string_view text, const std::string& path);

class TikTokenizer : public Tokenizer {
 public:
  /// Uses the options tiktoken, vocab_size and parse_special_tokens. Throws Error(bad_data) for an invalid file, and
  /// Error(usage) if options contradict each other or the file.
  TikTokenizer(std::vector<std::string> ranks, const std::string& path, const TokenizerOptions& options);
  /// Reads the ranks from options.tokenizer_model.
  explicit TikTokenizer(const TokenizerOptions& options);
  std::unique_ptr<Encoder> make_encoder(EncoderMemory memory) const override;
  std::string decode(std::span<const std::int32_t> ids) const override { return bytes_.decode(ids, path_); }
  std::int64_t vocab_size() const override { return bytes_.size(); }
  std::int32_t eod() const override;
  std::int32_t pad() const override;
  std::string type() const override { return "TikTokenizer"; }
  std::uint64_t hash() const override { return hash_; }
  /// Writes tokenizer.tiktoken (the ranks in use) and tiktoken_config.json (the options). Both formats are specific to
  /// mtl, because transformers has no files for such a tokenizer.
  void save(const std::string& folder) const override;

  /// Returns the options that save() wrote into a folder, or nothing if there are none.
  static std::optional<TokenizerOptions> find(const std::string& folder);

 private:
  std::string config_text() const;

  std::string path_;
  TiktokenOptions options_;
  std::vector<std::string> ranks_;  // those in use
  std::vector<SplitStep> split_;
  BpeModel model_;
  TokenBytes bytes_;
  TokenFinder special_;
  std::int32_t eod_ = -1;
  std::uint64_t hash_ = 0;
};

}  // namespace mtl
