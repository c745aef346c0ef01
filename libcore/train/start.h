// The starting state of a run: initial weights, a checkpoint of the same run, or another model. Rank 0 chooses the
// starting state, and the other ranks open the same files.
//
//   --save holds a valid checkpoint      resume the newest (also with --finetune: a requeued job continues)
//   --ckpt-step N, --load SAVE/iter_N    roll back: resume that one; later ones are renamed, never deleted
//   --load PATH                          resume it if it is a checkpoint; else, or with --finetune, load its weights
//   --load PATH that does not exist      start fresh when PATH is --save, else an error
//
// If the newest checkpoint is damaged, it is skipped with a warning and, in --save, renamed. If a checkpoint that is
// requested by name (--ckpt-step, --load DIR/iter_N) is damaged, the run is refused.
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

/// A summary of the starting state, which outlives the open files.
struct StartPoint {
  std::string folder;                       // of a checkpoint or model; empty: initial weights
  std::string kind;                         // ModelSource::kind
  std::optional<std::int64_t> iteration{};  // of the resumed state; empty: only weights, or a fresh start
  bool is_own = false;                      // the newest checkpoint of --save
  bool is_named = false;                    // requested by name: no other checkpoint may replace it
  bool is_rollback = false;                 // named, in --save
};

struct RunStart {
  std::shared_ptr<const SaveDirectory> save;  // --save; rank 0 locks it before reading it
  std::optional<ModelSource> source;          // weights to load; empty: initialize
  std::optional<TrainState> state;            // the training state; only in a resume
  StartPoint point;
  GptConfig config;  // set by the caller when resolved
};

/// Rank 0 only: finds the starting state in --save or --load. `save` is the locked --save folder; if `save` is null,
/// locks the folder first, except in a dry run. Skips the checkpoints in `damaged`, which failed to load. The caller
/// handles --exit-on-missing-checkpoint.
RunStart find_start(const TrainOptions& options, std::shared_ptr<const SaveDirectory> save,
                    const std::vector<std::string>& damaged, Console& console);

/// If the loaded model does not state its vocabulary size, trims the model to `tokenizer_size` tokens. If
/// `tokenizer_size` is 0 (no tokenizer), keeps all rows of the embedding and warns.
void settle_vocabulary(RunStart& start, std::int64_t tokenizer_size, Console& console);

/// Collective: every rank opens the starting state that find() returns on rank 0. If find() throws, all ranks throw the
/// same error.
RunStart share_start(const std::function<RunStart()>& find, const TrainOptions& options, Communicator& world);

/// Collective; call once the starting state is loaded. Rank 0 renames later checkpoints in --save to iter_N.rolled_back
/// if they are valid and a rollback discards them, otherwise to iter_N.damaged. Logs the starting state. A rollback
/// first verifies the whole checkpoint that it resumes.
void settle_start(const StartPoint& start, const TrainOptions& options, Communicator& world, Console& console);

/// Collective; call after a starting state failed to load. Returns true if its files are damaged, so that another
/// checkpoint may take its place. Always returns false for a checkpoint that was requested by name.
bool is_damaged(const StartPoint& start, Communicator& world, Console& console);

/// Returns the iteration in --save to which the flags roll back. Empty if there is no rollback.
std::optional<std::int64_t> rollback_target(const CheckpointOptions& flags);
/// Returns the record of a rollback. Checkpoints of the run store this record, so that a requeue of the same command
/// does not repeat the rollback. Null if there is no rollback.
Json rollback_record(const TrainOptions& options);

/// Returns the folder of the loaded model's tokenizer files, the default if no flag names a tokenizer. Empty if no
/// model is loaded.
std::string tokenizer_folder(const RunStart& start);

/// Returns true if two paths name the same file or folder, which need not exist.
bool is_same_path(const std::string& a, const std::string& b);

}  // namespace mtl
