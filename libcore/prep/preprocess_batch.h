// What one mtl-preprocess thread does: turns lines into tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "prep/preprocess.h"
#include "text/json_lines.h"

namespace mtl {

struct BadLine {
  std::string where;  // FILE:LINE
  std::string reason;
  std::string text;
};

/// Tokens in the type that the .bin will have: u16 if the vocabulary size permits.
using TypedTokens = std::variant<std::vector<std::uint16_t>, std::vector<std::int32_t>>;

/// A batch's documents for one key.
struct TokenColumn {
  TypedTokens tokens;
  std::vector<std::size_t> sequence_ends;  // offsets in `tokens`
  std::vector<std::size_t> document_ends;  // offsets in `sequence_ends`
  /// Removes the sequences after the last complete document.
  void drop_open_document();
};

/// The tokens of a LineBatch.
struct TokenBatch {
  std::vector<TokenColumn> columns;  // one for each key
  std::vector<BadLine> bad;
  std::int64_t documents = 0;
  std::uint64_t bytes = 0;         // of text
  std::uint64_t stored_bytes = 0;  // stored input bytes read up to this batch in all passes
};

class BatchTokenizer {
 public:
  BatchTokenizer(const PreprocessOptions& options, const Tokenizer& tokenizer);
  /// Tokenizes the lines whose index is `part` modulo `parts`, and collects the bad ones.
  TokenBatch tokenize(const LineBatch& lines, std::int64_t part, std::int64_t parts);

 private:
  void append_document(std::size_t key, TokenColumn& column);
  void append_sequence(std::string_view text);
  TypedTokens tokens_with_room(std::size_t key) const;

  bool splits_, keeps_newlines_, skips_bad_;
  TextExtractor extractor_;
  std::unique_ptr<Encoder> encoder_;
  std::size_t keys_;
  std::vector<std::size_t> previous_tokens_;  // by key: number of tokens in the previous batch
  bool is_u16_;
  std::optional<std::int32_t> eod_;
  // Buffers for one text, and for one key's document:
  std::vector<std::string_view> sentences_;
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> ends_;  // where its sequences end, as offsets in ids_
};

}  // namespace mtl
