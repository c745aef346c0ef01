// mtl-preprocess: tokenizes JSON lines into the token files that mtl-train and Megatron-LM read.
#include <algorithm>
#include <cmath>

#include "base/allocator.h"
#include "base/count_of.h"
#include "base/str.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/single_process.h"
#include "prep/preprocess.h"
#include "text/sentences.h"

using namespace mtl;

namespace {

void add_flags(Flags& flags, PreprocessOptions& options) {
  flags.section("Input");
  flags.add("--input", &options.inputs, "FILE...",
            "JSON lines files or quoted patterns, plain or compressed with gzip, xz or zstd; `-` is standard input",
            append, required);
  flags.add("--json-keys", &options.json_keys, "KEY...", "keys of the texts to tokenize, each into its own files");
  flags.add("--skip-bad", &options.skip_bad, "N", "put up to N bad lines into PREFIX.rejects.jsonl instead of stopping",
            at_least(0));
  flags.section("Output");
  flags.add("--output-prefix", &options.output_prefix, "PREFIX", "write PREFIX_KEY_document.bin, .idx and .json",
            required);
  flags.add_switch("--split-sentences", options.split_sentences,
                   "write every sentence as its own sequence, to PREFIX_KEY_sentence.bin, .idx and .json");
  flags.add("--lang", &options.lang, "LANGUAGE", "language of --split-sentences: " + join(sentence_languages(), ", "),
            only_with("--split-sentences", [&options] { return options.split_sentences; }));
  flags.add_switch("--keep-newlines", options.keep_newlines,
                   "with --split-sentences: keep the line breaks and spaces after a sentence",
                   only_with("--split-sentences", [&options] { return options.split_sentences; }));
  flags.add_switch("--append-eod", options.append_eod,
                   "append the end-of-document token to every document that is not empty");
  flags.add("--partitions", &options.partitions, "N",
            "order the documents as Megatron-LM with N partitions does: every N-th line, then every N-th from the "
            "second, ...",
            within({1, 4096}));
  flags.add_switch("--keep-sequential-samples", options.keep_sequential_samples,
                   "with --partitions: keep the input's order",
                   only_with("--partitions", [&options] { return options.partitions > 1; }));
  add_tokenizer_flags(flags, options.tokenizer);
  flags.add_switch(
      "--parse-special-tokens", options.tokenizer.parse_special_tokens,
      "encode special strings in a text, such as <|endoftext|>, as their tokens, like Megatron-LM since 2026",
      only_with("with --tokenizer-type HuggingFaceTokenizer, which always finds its tokens",
                [&options] { return options.tokenizer.type != "HuggingFaceTokenizer"; }));
  flags.section("Running");
  add_threads_flag(flags, options.workers, "--workers,--threads");
  flags.add("--log-interval", &options.log_interval, "N",
            "documents between progress lines; 0: none (default: a line every ten seconds)", at_least(0));
  flags.add_switch("--json", options.json, "print the summary as JSON");
}

void add_old_flags(Flags& flags) {
  flags.foreign.acknowledge(1, "has no effect, because mmap is the only format", "--dataset-impl");
  flags.foreign.acknowledge(1, "has no effect, because the chunk size is chosen automatically", "--chunk-size");
  flags.foreign.acknowledge(1, "has no effect, because mtl-train pads the vocabulary",
                            "--make-vocab-size-divisible-by");
}

void check(Flags& flags, const PreprocessOptions& options) {
  check_tokenizer_flags(flags, options.tokenizer);
  auto inputs_from_stdin = std::count(options.inputs.begin(), options.inputs.end(), "-");
  if (inputs_from_stdin > 1) flags.problem("--input -", "standard input can be read only once; use - only once");
  if (inputs_from_stdin > 0 && options.partitions > 1 && !options.keep_sequential_samples) {
    flags.problem("--input -",
                  "cannot be used with --partitions, which reads the input several times; add "
                  "--keep-sequential-samples, or use a file");
  }
  const std::vector<std::string>& languages = sentence_languages();
  if (options.split_sentences && std::count(languages.begin(), languages.end(), options.lang) == 0) {
    flags.problem("--lang " + options.lang,
                  cat("is not supported by --split-sentences; use ", join(languages, " or "),
                      ", or leave out --split-sentences and write each text as a list of sentences"));
  }
  for (const std::string& key : options.json_keys) {
    if (key.find('/') != std::string::npos)
      flags.problem("--json-keys " + key, "contains a /, which a file name cannot contain; rename the key in the data");
    if (std::count(options.json_keys.begin(), options.json_keys.end(), key) > 1) {
      flags.problem("--json-keys " + key, "is given more than once; give each key once");
      break;
    }
  }
}

void report_old_spellings(const PreprocessOptions& options, Console& console) {
  auto is_vocab = [](const std::string& word) { return word == "--vocab" || starts_with(word, "--vocab="); };
  if (std::any_of(options.command.begin(), options.command.end(), is_vocab))
    console.info("--vocab is treated as --vocab-file");
}

std::string summary_text(const Json& summary) {
  auto number = [&](const char* key) { return summary.at(key).as_number(); };
  auto count = [&](const char* key, const char* noun) { return count_of(std::llround(number(key)), noun); };
  std::string line = cat(count("documents", "document"), ", ", count("tokens", "token"), ", ",
                         format("%.1f MB in ", number("bytes") / 1e6), human_seconds(number("seconds")),
                         format(" (%.1f MB/s, ", number("mb_per_second")), count("documents_per_second", "document"),
                         "/s, ", count("tokens_per_second", "token"), "/s)");
  if (summary.at("skipped").as_int() > 0)
    line += cat("; ", count("skipped", "bad line"), " in ", summary.at("rejects").as_string());
  for (const Json& output : summary.at("outputs").as_array())
    line += cat("\n  ", output.at("prefix").as_string(), ".bin, .idx");
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  return_large_blocks();  // decoders allocate entire frames and blocks
  PreprocessOptions options;
  options.command.assign(argv, argv + argc);
  Flags flags("mtl-preprocess", "tokenize JSON lines into token files (.bin, .idx) for training");
  add_flags(flags, options);
  add_old_flags(flags);
  flags.check([&] {
    options.config_file = flags.config_file();
    check(flags, options);
  });
  return run_single_process(flags, argc, argv, [&](Console& console) {
    report_old_spellings(options, console);
    Json summary = preprocess(options, console);
    if (options.json) {
      print_out(summary.dump() + "\n");
    } else {
      console.info(summary_text(summary));
    }
  });
}
