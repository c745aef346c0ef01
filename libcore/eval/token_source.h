// Streams of tokens to score. The tokens are read from token files or tokenized from text.
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
  /// Replaces `ids` with the next tokens, possibly with none. Returns false at the end of the stream.
  virtual bool next(std::vector<std::int32_t>& ids) = 0;
  /// The total number of tokens, if known in advance.
  virtual std::optional<std::int64_t> total() const { return {}; }
  /// Bytes of text tokenized so far; empty for token files.
  virtual std::optional<std::int64_t> bytes() const { return {}; }
};

/// Opens PREFIX.bin and PREFIX.idx, given the prefix or either file name. Yields all sequences in stored order.
std::unique_ptr<TokenSource> open_token_files(const std::string& path);

enum class TextFormat {
  guess,  // JSON lines if the name says so (.jsonl, .json, also compressed) or the first line is a JSON object
  text,   // each file is one document
  jsonl,  // each line is one document, with its texts under one key
};

/// Opens plain or compressed text files; "-" is standard input. Each document is tokenized separately. In JSON lines,
/// an end-of-document token follows every non-empty document, as in training data. Text files are separated by an
/// end-of-document token. The message of an error in a JSON line is "FILE: line N: what".
std::unique_ptr<TokenSource> open_texts(std::vector<std::string> paths, TextFormat format, std::string key,
                                        const Tokenizer& tokenizer);

/// True if the name of a file, or the first line of its `text`, indicates JSON lines.
bool named_json_lines(const std::string& path);
bool looks_like_json_lines(std::string_view text);

}  // namespace mtl
