// mtl-preprocess: JSON lines to token files. Multiple threads tokenize batches of lines, and one thread writes the
// batches in order. So the output does not depend on the number of threads, and memory use does not grow with the
// input.
//
//   preprocess.cpp          the run: inputs, and passes over them
//   preprocess_batch.h      the work of one thread: lines to tokens
//   preprocess_outputs.h    the outputs: token files, rejects, provenance, progress and summary
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
  std::string config_file;  // from --config, or empty; outputs must not replace it
  std::string output_prefix;
  bool split_sentences = false;
  std::string lang = "english";  // of split_sentences
  bool keep_newlines = false;    // split_sentences keeps whitespace between sentences
  bool append_eod = false;
  std::int64_t workers = 0;                  // 0: all cores
  std::optional<std::int64_t> log_interval;  // documents between progress lines; 0: none; empty: every ten seconds
  std::int64_t partitions = 1;
  bool keep_sequential_samples = false;
  std::int64_t skip_bad = 0;  // how many bad lines to write to PREFIX.rejects.jsonl; one more ends the run
  bool json = false;
  TokenizerOptions tokenizer;
  std::vector<std::string> command;  // as typed, for provenance
};

/// Writes PREFIX_KEY_document.bin, .idx and .json (provenance) for every key (PREFIX_KEY_sentence with
/// split_sentences). Returns a summary: {"schema": "mtl-preprocess/1", "documents", "tokens", "bytes" (of text),
/// "input_bytes" (of the files, as stored), "seconds", "mb_per_second", "documents_per_second", "tokens_per_second",
/// "skipped", "rejects", "outputs"}.
///
/// Throws Error(bad_data) "FILE:LINE: what" for the first bad line after skip_bad bad lines. In that case, or if INT,
/// TERM or HUP terminates the process, no output files appear.
Json preprocess(const PreprocessOptions& options, Console& console);

}  // namespace mtl
