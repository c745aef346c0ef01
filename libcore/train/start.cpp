#include "train/start.h"

#include "base/files.h"

namespace mtl {

namespace {

RunStart resume(ModelSource source, Console& console) {
  RunStart start;
  start.state = source.state();
  if (start.state) console.info(cat("resuming ", source.folder(), " at iteration ", start.state->iteration));
  start.config = source.config();
  start.source = std::move(source);
  return start;
}

}  // namespace

RunStart find_start(const TrainOptions& options, Console& console) {
  const CheckpointOptions& flags = options.checkpoint;
  if (!flags.save.empty() && file_exists(flags.save)) {
    if (auto newest = newest_checkpoint(flags.save, console))
      return resume(ModelSource::open(*newest, console), console);
  }
  if (flags.load.empty()) return {};
  if (flags.load == flags.save) {  // a folder that a fresh run has just made, or will make
    if (!flags.exit_on_missing) console.info(cat(flags.load, " holds no checkpoint yet: starting from iteration 0"));
    return {};
  }
  if (!file_exists(flags.load)) fail(Exit::io, "--load ", flags.load, ": there is no such file or folder");
  ModelSource source = ModelSource::open(flags.load, console);
  if (!flags.finetune && source.state()) return resume(std::move(source), console);
  console.info(cat("starting from the weights of the ", source.kind(), " ", source.folder()));
  RunStart start;
  start.config = source.config();
  start.source = std::move(source);
  return start;
}

std::string tokenizer_folder(const RunStart& start) { return start.source ? start.source->folder() : ""; }

}  // namespace mtl
