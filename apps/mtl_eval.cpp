// mtl-eval: measures loss and perplexity of a model on text or token files.
#include "cli/eval/run.h"
#include "cli/eval/tokenizer.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/single_process.h"
#include "cli/thread_waits.h"

using namespace mtl;

namespace {

void add_flags(Flags& flags, EvalOptions& options) {
  add_model_flags(flags, options.model);
  flags.section("Data");
  flags.add("--data-path", &options.data_path, "PREFIX",
            "token files PREFIX.bin and PREFIX.idx, scored as one stream; this or --input is required");
  flags.add("--input", &options.inputs, "FILE...", "text or JSON lines, plain or compressed; `-` is standard input")
      .append();
  flags
      .add("--format", &options.format, "NAME",
           "input format (text: a file is one document; guess: by file name or first line)")
      .one_of({"guess", "text", "jsonl"});
  flags.add("--json-keys,--json-key", &options.json_key, "KEY", "key of the text in JSON lines")
      .only_with("with --format text", [&options] { return options.format != "text"; });
  flags.section("Scoring");
  flags
      .add("--seq-length", &options.seq_length, "S",
           "largest number of tokens to predict the next one from (default: all positions)")
      .within({1, INT32_MAX});
  flags
      .add("--batch-size", &options.batch_size, "N", "windows per forward pass (default: as many as make 4,096 tokens)")
      .within({1, 1 << 20});
  add_tokenizer_flags(flags, options.model.tokenizer);
  flags.section("Running");
  add_running_flags(flags, options.model);
  flags.add_switch("--json", options.json, "print the result as JSON");
}

void check(Flags& flags, const EvalOptions& options) {
  const bool has_text = !options.inputs.empty(), has_tokens = !options.data_path.empty();
  if (has_text == has_tokens)
    flags.problem("--data-path, --input",
                  has_text ? "use only one of them" : "one of them is required, with the data to score");
  check_model_tokenizer_flags(flags, options.model.tokenizer);
  for (const char* flag : {"--format", "--json-keys"}) {
    if (has_tokens && flags.was_given(flag))
      flags.problem(flag, "applies only to --input; remove this flag, or score text with --input");
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_thread_waits_short(argv);
  EvalOptions options;
  Flags flags("mtl-eval", "measure loss and perplexity of a model on text or token files");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  return run_single_process(flags, argc, argv, [&](Console& console) {
    EvalReport report = evaluate(options, console);
    print_out(options.json ? report.json().dump() + "\n" : report.line());
  });
}
