// Token streams to score, read from token files or tokenized from text.
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
  /// Replaces `ids` with the next tokens, possibly none. Returns false at the end of the stream.
  virtual bool next(std::vector<std::int32_t>& ids) = 0;
  /// Returns the total number of tokens, if known in advance.
  virtual std::optional<std::int64_t> total() const { return {}; }
  /// Returns the bytes of text tokenized so far. Empty for token files.
  virtual std::optional<std::int64_t> bytes() const { return {}; }
};

/// Opens PREFIX.bin and PREFIX.idx, given the prefix or either file name. Yields all sequences in stored order.
std::unique_ptr<TokenSource> open_token_files(const std::string& path);

enum class TextFormat {
  guess,  // JSON lines if the name says so (.jsonl, .json, also compressed) or the first line is a JSON object; an
          // error if the text begins like other JSON
  text,   // each file is one document
  jsonl,  // each line is one document, with its texts under one key
};

/// Opens plain or compressed text files; "-" is standard input. Each document is tokenized separately. In JSON lines,
/// an end-of-document token follows every non-empty document, as in training data. Between text files, there is an
/// end-of-document token. next() throws Error(bad_data) for text that is not UTF-8, and for a bad JSON line, with the
/// message "FILE:LINE: what".
std::unique_ptr<TokenSource> open_texts(std::vector<std::string> paths, TextFormat format, std::string key,
                                        const Tokenizer& tokenizer);

}  // namespace mtl
