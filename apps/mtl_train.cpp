// mtl-train: pre-trains a GPT from token files. The same command starts, resumes, or says that it is complete.
#include "cli/dry_run.h"
#include "cli/model_tokenizer.h"
#include "cli/run_main.h"
#include "cli/train_flags.h"
#include "train/trainer.h"

namespace mtl {

/// Flags and the loaded model together make the configuration; everything that contradicts itself is reported at once.
GptConfig configure(const TrainOptions& options, const RunStart& start, const Tokenizer* tokenizer) {
  std::vector<UsageError::Problem> problems;
  auto report = [&](std::string flag, std::string what) { problems.push_back({std::move(flag), std::move(what)}); };
  bool tells_documents_apart = options.data.eod_mask_loss || options.data.reset_position_ids || options.data.reset_attention_mask;
  if (tokenizer == nullptr && (tells_documents_apart || !start.source)) {
    report("--tokenizer-type", start.source ? "is needed to tell documents apart: the model has no tokenizer files"
                                            : "is needed, with its files: it decides the size of the vocabulary");
  }
  std::optional<GptConfig> loaded;
  if (start.source) loaded = start.config;
  GptConfig config = resolve_config(options, loaded, tokenizer == nullptr ? 0 : tokenizer->vocab_size(), report);
  if (problems.empty()) {
    for (const std::string& problem : config.problems()) report("model", problem);
  }
  if (!problems.empty()) throw UsageError(problems);
  return config;
}

Exit train(TrainOptions& options, Console& console) {
  options.threads = resolve_threads(options.threads);
  RunStart start = find_start(options, console);
  std::unique_ptr<Tokenizer> tokenizer = choose_tokenizer(options.tokenizer, tokenizer_folder(start));
  start.config = configure(options, start, tokenizer.get());
  if (options.dry_run) {
    print_out(describe_run(options, start.config));
    return Exit::ok;
  }
  Trainer trainer(options, std::move(start), tokenizer.get(), console);
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
