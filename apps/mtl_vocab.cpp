// mtl-vocab: learns a GPT-2 style vocabulary from text.
#include <algorithm>

#include "base/allocator.h"
#include "base/str.h"
#include "cli/alone.h"
#include "prep/vocab_training.h"

using namespace mtl;

namespace {

void add_flags(Flags& flags, VocabOptions& options) {
  flags.section("Input");
  flags
      .add("--input", &options.inputs, "FILE...",
           "text, or JSON lines (*.jsonl, *.json), plain or compressed with gzip, xz or zstd; `-` is standard input")
      .append()
      .required();
  flags.add("--format", &options.format, "FORMAT", "what the files hold: auto (by name), jsonl, text")
      .one_of({"auto", "jsonl", "text"});
  flags.add("--json-key,--json-keys", &options.json_key, "KEY", "key of the text in JSON lines")
      .only_with("with --format text", [&options] { return options.format != "text"; });
  flags
      .add("--unit", &options.unit, "UNIT",
           "what is cut into words as one text: document (the whole file or JSON value), line")
      .one_of({"document", "line"});
  flags.section("Vocabulary");
  flags.add("--vocab-size", &options.vocab_size, "N", "tokens to end with, the special ones and the 256 bytes included")
      .required()
      .within({256, 1 << 24});
  flags
      .add("--special-tokens", &options.special_tokens, "TOKEN...",
           "tokens that stand for no text, with ids from 0 on; none when nothing follows")
      .or_none();
  flags.add("--min-frequency", &options.min_frequency, "N", "join no pair that occurs less often").at_least(0);
  flags
      .add("--output-prefix", &options.output_prefix, "PREFIX",
           "write PREFIX-vocab.json, PREFIX-merges.txt, PREFIX-tokenizer.json")
      .required();
  flags.section("Running");
  flags
      .add("--max-words", &options.max_words, "N",
           "different words to make room for, which memory grows with; a text with more is an error")
      .within({1, 1e9});
  add_threads_flag(flags, options.threads);
  flags.add_switch("--json", options.json, "print a summary as JSON on standard output");
}

void check(Flags& flags, const VocabOptions& options) {
  std::int64_t least = 256 + options.special_tokens.size();
  if (flags.was_given("--vocab-size") && options.vocab_size < least) {
    flags.problem(cat("--vocab-size ", options.vocab_size),
                  cat("must be at least ", least, ": 256 bytes and the special tokens"));
  }
  if (std::count(options.inputs.begin(), options.inputs.end(), "-") > 1)
    flags.problem("--input -", "standard input can be read once");
  const auto& special = options.special_tokens;
  for (auto token = special.begin(); token != special.end(); ++token) {
    if (token->empty()) flags.problem("--special-tokens", "a token needs at least one character");
    if (std::find(special.begin(), token, *token) != token)
      flags.problem("--special-tokens " + *token, "is named twice");
    if (std::count(byte_stand_ins().begin(), byte_stand_ins().end(), *token) > 0) {
      flags.problem("--special-tokens " + *token, "stands for a byte");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return_large_blocks();  // decoded frames and blocks
  VocabOptions options;
  Flags flags("mtl-vocab", "a byte-level BPE vocabulary learned from text");
  add_flags(flags, options);
  flags.check([&] {
    options.config_file = flags.config_file();
    check(flags, options);
  });
  return run_alone(flags, argc, argv, [&](Console& console) {
    Json summary = train_vocab(options, console);
    console.info(cat(with_commas(summary.at("vocab_size").as_int()), " tokens from ",
                     with_commas(summary.at("bytes").as_int()), " bytes in ",
                     human_seconds(summary.at("seconds").as_number()), ": ", options.output_prefix,
                     "-vocab.json, -merges.txt, -tokenizer.json"));
    if (options.json) print_out(summary.dump() + "\n");
    return Exit::ok;
  });
}
