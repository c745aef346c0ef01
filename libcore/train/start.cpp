#include "train/start.h"

#include "base/files.h"

namespace mtl {

namespace {

void resume(RunStart& start, ModelSource source, Console& console) {
  start.state = source.state();
  if (start.state) console.info(cat("resuming ", source.folder(), " at iteration ", start.state->iteration));
  start.config = source.config();
  start.source = std::move(source);
}

}  // namespace

RunStart find_start(const TrainOptions& options, bool is_rank_zero, Console& console) {
  const CheckpointOptions& flags = options.checkpoint;
  RunStart start;
  if (!flags.save.empty() && !options.dry_run)
    start.save = is_rank_zero ? SaveDirectory(flags.save) : SaveDirectory::of_other_rank(flags.save);
  if (!flags.save.empty() && file_exists(flags.save)) {
    if (auto newest = newest_checkpoint(flags.save, console)) {
      resume(start, ModelSource::open(*newest, console), console);
      start.is_own = true;
      return start;
    }
  }
  if (flags.load.empty()) return start;
  if (flags.load == flags.save) {  // a folder that a fresh run has just made, or will make
    if (!flags.exit_on_missing) console.info(cat(flags.load, " holds no checkpoint yet: starting from iteration 0"));
    return start;
  }
  if (!file_exists(flags.load)) fail(Exit::io, "--load ", flags.load, ": there is no such file or folder");
  ModelSource source = ModelSource::open(flags.load, console);
  if (!flags.finetune && source.state()) {
    resume(start, std::move(source), console);
    return start;
  }
  console.info(cat("starting from the weights of the ", source.kind(), " ", source.folder()));
  start.config = source.config();
  start.source = std::move(source);
  return start;
}

std::string tokenizer_folder(const RunStart& start) { return start.source ? start.source->folder() : ""; }

}  // namespace mtl
