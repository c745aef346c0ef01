// mtl-train: pre-trains a GPT from token files. The same command starts, resumes, or says that it is complete.
#include "cli/dry_run.h"
#include "cli/run_main.h"
#include "cli/train_flags.h"
#include "train/trainer.h"

namespace mtl {

/// Flags and the loaded model together make the configuration; everything that contradicts itself is reported at once.
GptConfig configure(const TrainOptions& options, const RunStart& start, std::int64_t vocab_size) {
  std::vector<UsageError::Problem> problems;
  auto report = [&](std::string flag, std::string what) { problems.push_back({std::move(flag), std::move(what)}); };
  std::optional<GptConfig> loaded;
  if (start.source) loaded = start.config;
  GptConfig config = resolve_config(options, loaded, vocab_size, report);
  if (problems.empty()) {
    for (const std::string& problem : config.problems()) report("model", problem);
  }
  if (!problems.empty()) throw UsageError(problems);
  return config;
}

Exit train(TrainOptions& options, Console& console) {
  options.threads = resolve_threads(options.threads);
  RunStart start = find_start(options, console);
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer, tokenizer_folder(start));
  start.config = configure(options, start, tokenizer->vocab_size());
  if (options.dry_run) {
    print_out(describe_run(options, start.config));
    return Exit::ok;
  }
  Trainer trainer(options, std::move(start), *tokenizer, console);
  return trainer.run();
}

}  // namespace mtl

int main(int argc, char** argv) {
  mtl::TrainOptions options;
  options.command_line = mtl::join({argv, argv + argc}, " ");
  mtl::Flags flags("mtl-train", "pre-train a GPT language model; the same command starts, resumes, or says that it is complete");
  mtl::add_train_flags(flags, options);
  return mtl::run_main(flags, argc, argv, [&](mtl::Console& console) { return mtl::train(options, console); });
}
