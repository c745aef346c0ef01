// mtl-train: pre-trains a GPT from token files. The same command starts, resumes, or says that it is complete.
#include "cli/dry_run.h"
#include "cli/run_main.h"
#include "cli/train_flags.h"
#include "cli/train_setup.h"
#include "train/trainer.h"

namespace mtl {

Exit train(TrainOptions& options, TrainSetup& setup, Console& console) {
  options.threads = resolve_threads(options.threads);
  if (options.dry_run) {
    print_out(describe_run(options, setup.start.config));
    return Exit::ok;
  }
  Trainer trainer(options, std::move(setup.start), setup.tokenizer.get(), console);
  return trainer.run();
}

}  // namespace mtl

int main(int argc, char** argv) {
  mtl::TrainOptions options;
  options.command_line = mtl::join({argv, argv + argc}, " ");
  mtl::Flags flags("mtl-train", "pre-train a GPT language model; the same command starts, resumes, or says that it is complete");
  mtl::add_train_flags(flags, options);
  mtl::TrainSetup setup;
  flags.check([&] { if (!flags.wants_dump()) mtl::prepare_training(options, flags, setup); });
  return mtl::run_main(flags, argc, argv, [&](mtl::Console& console) { return mtl::train(options, setup, console); });
}
