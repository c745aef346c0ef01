// mtl-eval: measures loss and perplexity of a model on text or token files.
#include "cli/eval/model.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/single_process.h"
#include "eval/evaluate.h"

using namespace mtl;

namespace {

/// The values of all flags.
struct EvalCommand : EvalOptions {
  ModelOptions model;
  std::string format = "guess";  // of `inputs`
  std::string json_key = "text";
  bool json = false;
};

void add_flags(Flags& flags, EvalCommand& options) {
  add_model_flags(flags, options.model);
  flags.section("Data");
  flags.add("--data-path", &options.data_path, "PREFIX",
            "token files PREFIX.bin and PREFIX.idx, scored as one stream; this or --input is required");
  flags.add("--input", &options.inputs, "FILE...", "text or JSON lines, plain or compressed; `-` is standard input",
            append);
  flags.add("--format", &options.format, "NAME",
            "input format (text: a file is one document; guess: by file name or first line)",
            one_of({"guess", "text", "jsonl"}));
  flags.add("--json-keys,--json-key", &options.json_key, "KEY", "key of the text in JSON lines",
            only_with("with --format text", [&options] { return options.format != "text"; }));
  flags.section("Scoring");
  flags.add("--seq-length", &options.seq_length, "S",
            "largest number of tokens to predict the next one from (default: all positions)", within({1, INT32_MAX}));
  flags.add("--batch-size", &options.batch_size, "N",
            "windows per forward pass (default: as many as make 4,096 tokens)", within({1, 1 << 20}));
  add_tokenizer_flags(flags, options.model.tokenizer);
  flags.section("Running");
  add_running_flags(flags, options.model);
  flags.add_switch("--json", options.json, "print the result as JSON");
}

void check(Flags& flags, const EvalCommand& options) {
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

std::unique_ptr<TokenSource> open_data(const EvalCommand& command, const Tokenizer* tokenizer,
                                       const std::string& model) {
  if (command.inputs.empty()) return open_token_files(command.data_path);
  if (tokenizer == nullptr)
    throw UsageError("--input", cat("needs a tokenizer, but ", model,
                                    " has no tokenizer files; add --vocab-file and --merge-file or another "
                                    "--tokenizer-type, or score token files with --data-path"));
  const TextFormat format = command.format == "text"    ? TextFormat::text
                            : command.format == "jsonl" ? TextFormat::jsonl
                                                        : TextFormat::guess;
  return open_texts(command.inputs, format, command.json_key, *tokenizer);
}

EvalReport evaluate_model(const EvalCommand& command, Console& console) {
  ModelSource source = open_source(command.model, console);
  check_seq_length(command, source.config());
  const auto tokenizer = tokenizer_of_model(command.model.tokenizer, source, console);
  const auto tokens = open_data(command, tokenizer.get(), source.folder());
  Model model = load_model(command.model, source, console);
  EvalReport report = evaluate(command, model, *tokens, console);
  report.model = source.folder();
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  keep_thread_waits_short(argv);
  EvalCommand options;
  Flags flags("mtl-eval", "measure loss and perplexity of a model on text or token files");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  return run_single_process(flags, argc, argv, [&](Console& console) {
    const EvalReport report = evaluate_model(options, console);
    print_out(options.json ? report.json().dump() + "\n" : report.line());
  });
}
