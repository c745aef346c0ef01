// The start of a run: initial weights, one of its own checkpoints, or another model. Rank 0 chooses it; other ranks
// open the same files.
//
//   --save holds a valid checkpoint      resume the newest (also with --finetune: a requeued job continues)
//   --ckpt-step N, --load SAVE/iter_N    roll back: resume that one; later ones are renamed, never deleted
//   --load PATH                          resume it if it is a checkpoint; else, or with --finetune, load its weights
//   --load PATH that does not exist      start fresh when PATH is --save, else an error
//
// A damaged newest checkpoint is passed over with a warning, and renamed in --save. A damaged one that is named
// (--ckpt-step, --load DIR/iter_N) is refused.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "ckpt/checkpoint.h"
#include "ckpt/model_source.h"
#include "train/options.h"

namespace mtl {

/// A summary of a run's start, which outlives the open files.
struct StartPoint {
  std::string folder;                       // of a checkpoint or model; empty: initial weights
  std::string kind;                         // ModelSource::kind
  std::optional<std::int64_t> iteration{};  // of the resumed state; empty: only weights, or a fresh start
  bool is_own = false;                      // the newest checkpoint of --save
  bool is_named = false;                    // requested by name: no other one may replace it
  bool is_rollback = false;                 // named, in --save
};

struct RunStart {
  std::shared_ptr<const SaveDirectory> save;  // --save; rank 0 locks it before reading it
  std::optional<ModelSource> source;          // weights to load; empty: initialize
  std::optional<TrainState> state;            // the training state, in a resume
  StartPoint point;
  GptConfig config;  // set by the caller when resolved
};

/// Rank 0 only: finds the start in --save or --load. `save` is the locked --save folder; if it is null, locks the
/// folder first, except in a dry run. Passes over the checkpoints in `damaged`, which failed to load. Leaves
/// --exit-on-missing-checkpoint to the caller.
RunStart find_start(const TrainOptions& options, std::shared_ptr<const SaveDirectory> save,
                    const std::vector<std::string>& damaged, Console& console);

/// If the loaded model does not state its vocabulary size, trims it to the tokenizer's. Without a tokenizer (0), keeps
/// all rows of the embedding and warns.
void settle_vocabulary(RunStart& start, std::int64_t tokenizer_size, Console& console);

/// Collective: every rank opens the start that find() returns on rank 0. All ranks throw what find() throws.
RunStart share_start(const std::function<RunStart()>& find, const TrainOptions& options, Communicator& world);

/// Collective, once the start is loaded: rank 0 renames later checkpoints in --save to iter_N.damaged or, if they are
/// valid ones that a rollback discards, iter_N.rolled_back. Reports the start. A rollback first verifies the whole
/// checkpoint that it resumes.
void settle_start(const StartPoint& start, const TrainOptions& options, Communicator& world, Console& console);

/// Collective, after a start failed to load: returns true if its files are damaged, so that another checkpoint may take
/// its place. Always false for a checkpoint that was named.
bool is_damaged(const StartPoint& start, Communicator& world, Console& console);

/// Returns the iteration in --save that the flags roll back to; empty without a rollback.
std::optional<std::int64_t> rollback_target(const CheckpointOptions& flags);
/// Returns the record of a rollback for the run's checkpoints, so that a requeue of the same command does not repeat
/// it. Null without a rollback.
Json rollback_record(const TrainOptions& options);

/// Returns the default folder of tokenizer files, used if no flags name a tokenizer: the loaded model's. Empty without
/// a loaded model.
std::string tokenizer_folder(const RunStart& start);

/// Returns true if two paths name the same file or folder, which need not exist.
bool is_same_path(const std::string& a, const std::string& b);

}  // namespace mtl
