// The prompts of mtl-generate: from the command line, lines of a file, or JSON lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "eval/model.h"
#include "text/json_lines.h"
#include "text/tokenizer.h"

namespace mtl {

struct Prompt {
  std::string text;               // as it was given
  std::vector<std::int32_t> ids;  // at least one
  std::string where;              // for messages: "FILE: line N", or "--prompt"
};

/// Parses prompts: text, token ids, or JSON lines with either.
struct PromptReader {
  const Model& model;
  const Tokenizer* tokenizer;         // null with `ids`
  bool ids = false;                   // prompts are token ids, separated by blanks
  std::optional<std::int32_t> first;  // replaces an empty prompt: the end-of-document token; empty: none is known

  /// Throws Error(bad_data) with `where` for words that are not ids, for ids that the model lacks, and for an empty
  /// prompt without `first`.
  Prompt read(std::string text, std::string where) const;
  /// Reads {"prompt": ...}, a string or, with `ids`, also a list of numbers. Throws Error(bad_data) for other JSON.
  Prompt read_json(std::string_view line, const std::string& where) const;
};

/// Reads the prompts of a file or of standard input, "-", each as soon as its line has arrived: one prompt per line or,
/// if the name of the file or its first line indicates it, JSON lines.
class PromptStream {
 public:
  /// Does not open `path` before the first next().
  PromptStream(const PromptReader& reader, const std::string& path, Console& console);
  /// Returns the next prompt; empty at the end. Reports, counts and skips a line that is not a prompt.
  std::optional<Prompt> next();
  std::int64_t bad_lines() const { return bad_lines_; }
  std::int64_t lines() const { return lines_; }
  const std::string& name() const { return name_; }

 private:
  const PromptReader& reader_;
  Console& console_;
  std::string name_;
  LineReader file_;
  std::optional<bool> is_json_;  // known with the first line
  std::int64_t lines_ = 0, bad_lines_ = 0;
};

}  // namespace mtl
