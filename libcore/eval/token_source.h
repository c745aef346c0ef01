// Streams of tokens to score, read from token files or tokenized from text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace mtl {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Replaces `ids` with the next tokens, perhaps none; returns false at the end.
  virtual bool next(std::vector<std::int32_t>& ids) = 0;
  /// The total number of tokens, if known in advance.
  virtual std::optional<std::int64_t> total() const { return {}; }
  /// Bytes of text tokenized so far; empty for token files.
  virtual std::optional<std::int64_t> bytes() const { return {}; }
};

/// Opens PREFIX.bin and PREFIX.idx by their prefix or either name; yields all sequences in stored order.
std::unique_ptr<TokenSource> open_token_files(const std::string& path);

enum class TextFormat {
  guess,  // by name (.jsonl, .json, perhaps compressed), else by whether the first line is a JSON object
  text,   // a file is one document
  jsonl,  // a line is one document, its texts under one key
};

/// Opens files of text, plain or compressed; "-" is standard input. Each document is tokenized separately. In JSON
/// lines, the end-of-document token follows every document that is not empty, as in training data; between text files
/// it is a separator. An error in a JSON line reads "FILE: line N: what".
std::unique_ptr<TokenSource> open_texts(std::vector<std::string> paths, TextFormat format, std::string key,
                                        const Tokenizer& tokenizer);

/// True if the name of a file, or the first line of its `text`, indicates JSON lines.
bool named_json_lines(const std::string& path);
bool looks_like_json_lines(std::string_view text);

}  // namespace mtl
