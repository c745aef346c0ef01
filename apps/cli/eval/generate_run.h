// Runs mtl-generate: continues prompts with a model.
#pragma once

#include <string>
#include <vector>

#include "base/console.h"
#include "cli/eval/model.h"
#include "eval/generate.h"

namespace mtl {

struct GenerateOptions {
  ModelOptions model;
  std::vector<std::string> prompts;
  std::string input;             // prompt file if `prompts` is empty; empty or "-": standard input
  bool ids = false;              // prompts are token ids, and ids are printed
  GenerationOptions generation;  // without `stops`
  std::int64_t num_samples = 1;  // continuations of each prompt
  bool ignore_eos = false;
  bool json_lines = false;
  bool logprobs = false;  // print the new tokens' log-probabilities in the JSON lines
  std::int64_t batch_size = 1;

  /// True if each token is printed when it is drawn.
  bool streams_tokens() const { return batch_size == 1 && !json_lines; }
};

/// Prints continuations to stdout, each before reading the next prompt or, with batch_size above 1, each batch before
/// reading the next. If some input lines are not prompts, continues all others, then returns Exit::bad_data. Throws
/// UsageError if flags do not fit the model.
Exit generate(const GenerateOptions& options, Console& console);

}  // namespace mtl
