// mtl-preprocess: JSON lines to token files. Threads tokenise chunks of lines, one writer takes them in order, so the
// output does not depend on the number of threads and memory does not grow with the input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace mtl {

struct PreprocessOptions {
  std::vector<std::string> inputs;  // files; "-" is standard input
  std::vector<std::string> json_keys = {"text"};
  std::string output_prefix;
  bool append_eod = false;
  std::int64_t workers = 0;
  std::optional<std::int64_t> log_interval;  // documents between progress lines; every ten seconds when empty
  std::int64_t partitions = 1;
  bool keep_sequential_samples = false;
  std::int64_t skip_bad = 0;  // bad lines that go to PREFIX.rejects.jsonl before one ends the run
  bool json = false;
  TokenizerOptions tokenizer;
  std::vector<std::string> command;  // as typed, for provenance
};

/// Writes PREFIX_KEY_document.bin, .idx and .json (provenance) for every key and returns a summary:
/// {"schema": "mtl-preprocess/1", "documents", "tokens", "bytes", "seconds", "mb_per_second", "skipped", "outputs"}.
/// A bad line is Error(bad_data) "FILE:LINE: what (column N)", and then no output appears.
Json preprocess(const PreprocessOptions& options, Console& console);

}  // namespace mtl
