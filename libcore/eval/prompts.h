// mtl-generate's prompts, from the command line, from text lines, or from JSON lines.
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
  std::string where;              // for messages: "FILE:LINE", or "--prompt"
};

/// Parses prompts: text, token ids, or JSON lines with either.
struct PromptReader {
  const Model& model;
  const Tokenizer* tokenizer;         // null with `ids`
  bool ids = false;                   // prompts are token ids, separated by blanks
  std::optional<std::int32_t> first;  // end-of-document token, replaces an empty prompt; empty if unknown

  /// Throws Error(bad_data), which names `where`, for text that is not UTF-8, for words that are not ids, for ids the
  /// model lacks, and for an empty prompt if `first` is empty.
  /// `unpack`: the command that decompresses the file (text/other_formats.h).
  Prompt read(std::string text, std::string where, std::string_view unpack = "") const;
  /// Like read(), for the value of --prompt.
  Prompt read_flag(const std::string& text) const;
  /// Parses {"prompt": ...}. The value is a string or, with `ids`, possibly a list of numbers. Throws Error(bad_data)
  /// for other JSON.
  Prompt read_json(std::string_view line, const std::string& where, std::string_view unpack) const;
};

/// Reads prompts from a file or standard input ("-"), and returns each as soon as its line has arrived. There is one
/// prompt per line, as JSON if the file name or the first line that is not blank indicates that.
class PromptStream {
 public:
  /// `path` is opened by the first call to next().
  PromptStream(const PromptReader& reader, const std::string& path, Console& console);
  /// Returns the next prompt, or nullopt at the end. Skips, reports and counts lines that are not prompts. Throws
  /// Error(bad_data) if that first line begins like JSON in another layout than JSON lines.
  std::optional<Prompt> next();
  std::int64_t bad_lines() const { return bad_lines_; }
  std::int64_t lines() const { return lines_; }
  const std::string& name() const { return name_; }

 private:
  const PromptReader& reader_;
  Console& console_;
  std::string name_;
  LineReader file_;
  bool is_json_ = false;   // by the name or, once begun, by the first line that is not blank
  bool is_begun_ = false;  // a line that is not blank has been read
  std::int64_t lines_ = 0, bad_lines_ = 0;
};

}  // namespace mtl
