// mtl-vocab: learns a GPT-2 style vocabulary from text.
#include <algorithm>

#include "base/allocator.h"
#include "base/str.h"
#include "cli/single_process.h"
#include "prep/vocab_training.h"

using namespace mtl;

namespace {

void add_flags(Flags& flags, VocabOptions& options) {
  flags.section("Input");
  flags.add("--input", &options.inputs, "FILE...",
            "text, or JSON lines (*.jsonl, *.json), plain or compressed with gzip, xz or zstd; `-` is standard input",
            append, required);
  flags.add("--format", &options.format, "FORMAT", "input format (auto: by file name)",
            one_of({"auto", "jsonl", "text"}));
  flags.add("--json-key,--json-keys", &options.json_key, "KEY", "key of the text in JSON lines",
            only_with("with --format text", [&options] { return options.format != "text"; }));
  flags.add("--unit", &options.unit, "UNIT", "unit of text to split into words (document: a whole file or JSON value)",
            one_of({"document", "line"}));
  flags.section("Vocabulary");
  flags.add("--vocab-size", &options.vocab_size, "N",
            "size of the vocabulary, special tokens and the 256 bytes included", required, within({256, 1 << 24}));
  flags.add("--special-tokens", &options.special_tokens, "TOKEN...",
            "tokens that no text encodes to, with ids from 0; none when nothing follows", or_none);
  flags.add("--min-frequency", &options.min_frequency, "N", "merge only pairs that occur at least N times",
            at_least(0));
  flags.add("--output-prefix", &options.output_prefix, "PREFIX",
            "write PREFIX-vocab.json, PREFIX-merges.txt, PREFIX-tokenizer.json", required);
  flags.section("Running");
  flags.add("--max-words", &options.max_words, "N",
            "limit of distinct words, and so of memory; a text with more is an error", within({1, 1e9}));
  add_threads_flag(flags, options.threads);
  flags.add_switch("--json", options.json, "print the summary as JSON");
}

void check(Flags& flags, const VocabOptions& options) {
  std::int64_t least = 256 + options.special_tokens.size();
  if (flags.was_given("--vocab-size") && options.vocab_size < least) {
    flags.problem(cat("--vocab-size ", options.vocab_size),
                  cat("must be at least ", least, ": 256 bytes and the special tokens"));
  }
  if (std::count(options.inputs.begin(), options.inputs.end(), "-") > 1)
    flags.problem("--input -", "standard input can be read only once; use - only once");
  const auto& special = options.special_tokens;
  for (auto token = special.begin(); token != special.end(); ++token) {
    if (std::find(special.begin(), token, *token) != token)
      flags.problem("--special-tokens " + *token, "is given twice; remove one");
    if (std::count(byte_stand_ins().begin(), byte_stand_ins().end(), *token) > 0) {
      flags.problem("--special-tokens " + *token, "is the token of a byte in every vocabulary; choose another name");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return_large_blocks();  // decoders allocate entire frames and blocks
  VocabOptions options;
  Flags flags("mtl-vocab", "learn a byte-level BPE vocabulary from text");
  add_flags(flags, options);
  flags.check([&] {
    options.config_file = flags.config_file();
    check(flags, options);
  });
  return run_single_process(flags, argc, argv, [&](Console& console) {
    Json summary = train_vocab(options, console);
    console.info(cat(with_commas(summary.at("vocab_size").as_int()), " tokens from ",
                     with_commas(summary.at("bytes").as_int()), " bytes in ",
                     human_seconds(summary.at("seconds").as_number()), ": ", options.output_prefix,
                     "-vocab.json, -merges.txt, -tokenizer.json"));
    if (options.json) print_out(summary.dump() + "\n");
  });
}
