// Where a run starts from: nothing, a checkpoint of its own, or another model.
//
//   --save holds a valid checkpoint      resume it (also with --finetune: a requeued job goes on)
//   --load PATH                          resume it when it is a checkpoint; with --finetune its weights, iteration 0
//   --load PATH that does not exist      start fresh when PATH is --save, else an error
#pragma once

#include <optional>

#include "base/console.h"
#include "ckpt/checkpoint.h"
#include "ckpt/model_source.h"
#include "train/options.h"

namespace mtl {

struct RunStart {
  std::optional<SaveDirectory> save;  // --save; the first rank locked it before it looked there
  std::optional<ModelSource> source;  // weights to load; empty: initialise
  std::optional<TrainState> state;    // where it stood, when this is a resume
  bool is_own = false;                // the state is that of the newest checkpoint in --save
  GptConfig config;                   // set by the caller once it is resolved
};

/// Looks at --save and --load, each once, and reports on the console what was found. The first rank locks --save first,
/// so that what it finds stays true; a dry run locks nothing. The caller refuses to start fresh where
/// --exit-on-missing-checkpoint is given.
RunStart find_start(const TrainOptions& options, bool is_rank_zero, Console& console);

/// The folder whose tokenizer files serve when no flags name a tokenizer: the loaded model's. Empty when there is none.
std::string tokenizer_folder(const RunStart& start);

}  // namespace mtl
