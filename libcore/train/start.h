// The state from which a run starts: initial weights, a checkpoint of the same run, or another model. Rank 0 chooses
// it, and the other ranks open the same files.
//
//   --save holds a valid checkpoint      resume the newest (also with --finetune: a requeued job continues)
//   --ckpt-step N, --load SAVE/iter_N    roll back: resume that one; later ones are renamed, never deleted
//   --load PATH                          resume it if it is a checkpoint; else, or with --finetune, load its weights
//   --load PATH that does not exist      start fresh when PATH is --save, else an error
//
// If the newest checkpoint is damaged, it is skipped with a warning and, in --save, renamed. If an explicitly requested
// checkpoint (--ckpt-step, --load DIR/iter_N) is damaged, the run is refused.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "ckpt/checkpoint.h"
#include "models/model_source.h"
#include "run/options.h"

namespace mtl {

/// A summary of the starting state, which outlives the open files.
struct StartPoint {
  std::string folder;                       // of the checkpoint or model; empty: initial weights
  std::string kind;                         // ModelSource::kind
  std::optional<std::int64_t> iteration{};  // of the resumed state; empty: only weights, or a fresh start
  bool is_own = false;                      // the newest checkpoint of --save
  bool is_named = false;                    // explicitly requested: no other checkpoint may replace it
  bool is_rollback = false;                 // named, in --save
  bool resets_states = false;               // --no-load-optim acts: the optimizer's states start at zero
  std::vector<std::string> changes{};       // settings that differ from the checkpoint's or the model's, for the log
};

struct RunStart {
  std::shared_ptr<const SaveDirectory> save;  // --save; rank 0 locks it before reading it
  std::optional<ModelSource> source;          // weights to load; empty: initialize
  std::optional<TrainState> state;            // the training state; only when resuming
  StartPoint point;
  GptConfig config;  // set by the caller once resolved
};

/// Rank 0 only: finds the starting state in --save or --load. `save` is the locked --save folder. If it is null, locks
/// the folder first, except in a dry run. Skips the checkpoints in `damaged`, which failed to load. The caller handles
/// --exit-on-missing-checkpoint.
RunStart find_start(const TrainOptions& options, std::shared_ptr<const SaveDirectory> save,
                    const std::vector<std::string>& damaged, Console& console);

/// If the loaded model does not state its vocabulary size, trims it to `tokenizer_size` tokens. If that is 0 (no
/// tokenizer), keeps all embedding rows and warns.
void trim_vocabulary(RunStart& start, std::int64_t tokenizer_size, Console& console);

/// Collective: every rank opens the starting state that find() returns on rank 0. If find() throws, all ranks throw the
/// same error.
RunStart share_start(const std::function<RunStart()>& find, const TrainOptions& options, Communicator& world);

/// Collective. Must be called once the starting state is loaded. Rank 0 renames later checkpoints in --save: complete
/// ones that a rollback discards to iter_N.rolled_back, all others to iter_N.damaged. Logs the starting state. A
/// rollback first verifies the entire checkpoint that it resumes from.
void adopt_start(const StartPoint& start, const TrainOptions& options, Communicator& world, Console& console);

/// Collective. Must be called after a starting state failed to load. Returns true if its files are damaged, so that
/// another checkpoint may take its place. Always returns false for an explicitly requested checkpoint.
bool is_damaged(const StartPoint& start, Communicator& world, Console& console);

/// Returns the iteration in --save that the flags roll back to. Empty if they do not.
std::optional<std::int64_t> rollback_target(const CheckpointOptions& flags);
/// Returns the record of a rollback. The run's checkpoints store it, so that a requeued command does not repeat the
/// rollback. Null if there is no rollback.
Json rollback_record(const TrainOptions& options);

/// Returns true if two paths refer to the same file or folder, which need not exist.
bool is_same_path(const std::string& a, const std::string& b);

}  // namespace mtl
