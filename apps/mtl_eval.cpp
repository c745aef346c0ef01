// mtl-eval: loss and perplexity of a model on a text or on token files.
#include "cli/alone.h"
#include "cli/device_flags.h"
#include "cli/eval_run.h"
#include "cli/eval_tokenizer.h"
#include "cli/model_flags.h"
#include "cli/thread_waits.h"
#include "cli/tokenizer_flags.h"

using namespace mtl;

namespace {

void add_flags(Flags& flags, EvalOptions& options) {
  flags.section("Model");
  flags.add("--load", &options.load, "PATH", "the model: a checkpoint, a Hugging Face folder, or Megatron-LM's")
      .required();
  add_heads_flag(flags, options.num_attention_heads);
  add_compute_flag(flags, options.dtype);
  flags.section("Data, one of two");
  flags.add("--data-path", &options.data_path, "PREFIX",
            "token files PREFIX.bin and PREFIX.idx: all their tokens, as one stream");
  flags.add("--input", &options.inputs, "FILE...", "text or JSON lines, plain or compressed; `-` is standard input")
      .append();
  flags
      .add("--format", &options.format, "NAME",
           "how a file is read; text: it is one document; guess: by its name or first line")
      .one_of({"guess", "text", "jsonl"});
  flags.add("--json-keys,--json-key", &options.json_key, "KEY", "the key of the text in JSON lines")
      .only_with("with --format text", [&options] { return options.format != "text"; });
  flags.section("Scoring");
  flags
      .add("--seq-length", &options.seq_length, "S",
           "tokens that the model sees at most; all its positions when absent")
      .within({1, INT32_MAX});
  flags
      .add("--batch-size", &options.batch_size, "N",
           "windows computed at a time; as many as make 4,096 tokens when absent")
      .within({1, 1 << 20});
  add_tokenizer_flags(flags, options.tokenizer);
  flags.section("Running");
  add_device_flag(flags, options.device);
  add_threads_flag(flags, options.threads);
  flags.add_switch("--json", options.json, "print the result as JSON");
}

void check(Flags& flags, const EvalOptions& options) {
  const bool has_text = !options.inputs.empty(), has_tokens = !options.data_path.empty();
  if (has_text == has_tokens)
    flags.problem("--data-path, --input",
                  has_text ? "give one of them" : "one of them is needed: what is to be scored");
  check_model_tokenizer_flags(flags, options.tokenizer);
  for (const char* flag : {"--format", "--json-keys"}) {
    if (has_tokens && flags.was_given(flag)) flags.problem(flag, "belongs to --input; token files are tokens already");
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_thread_waits_short(argv);
  EvalOptions options;
  Flags flags("mtl-eval", "loss and perplexity of a model on a text or on token files");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  return run_alone(flags, argc, argv, [&](Console& console) {
    EvalReport report = evaluate(options, console);
    print_out(options.json ? report.json().dump() + "\n" : report.line());
    return Exit::ok;
  });
}
