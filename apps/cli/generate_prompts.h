// The prompts of mtl-generate: words of the command line, lines of a file, or JSON lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/model.h"
#include "text/tokenizer.h"

namespace mtl {

struct Prompt {
  std::string text;               // as it was given
  std::vector<std::int32_t> ids;  // at least one
  std::string where;              // "FILE: line N", or "--prompt"
};

/// How prompts are read.
struct PromptReader {
  const Model& model;
  const Tokenizer* tokenizer;         // null with `ids`
  bool ids = false;                   // prompts are token ids, separated by blanks
  std::optional<std::int32_t> first;  // what an empty prompt stands for: the end-of-document token

  /// Throws Error(bad_data) with `where` for words that are no ids, ids that the model lacks, a prompt without any.
  Prompt read(std::string text, std::string where) const;
  /// One prompt a line; or, when the name or the first line says so, JSON lines, whose "prompt" is a string (with
  /// `ids` also a list of numbers). "-" is standard input.
  std::vector<Prompt> read_file(const std::string& path) const;

 private:
  Prompt read_json(std::string_view line, const std::string& where) const;
};

}  // namespace mtl
