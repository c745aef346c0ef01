// The start of a run: initial weights, a checkpoint of its own, or another model. Rank 0 decides; the other ranks of a
// job open the files that it found.
//
//   --save holds a valid checkpoint      resume the newest (also with --finetune: a requeued job continues)
//   --ckpt-step N, --load SAVE/iter_N    roll back: resume that one; later ones are renamed, never deleted
//   --load PATH                          resume it when it is a checkpoint; with --finetune its weights, iteration 0
//   --load PATH that does not exist      start fresh when PATH is --save, else an error
//
// A newest checkpoint that is damaged is passed over, with a warning; in --save it is renamed. One that is named
// (--ckpt-step, --load DIR/iter_N) is refused instead.
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
  std::optional<std::int64_t> iteration{};  // that is resumed; empty: only weights, or a fresh start
  bool is_own = false;                      // the newest checkpoint of --save
  bool is_named = false;                    // requested by name: no other one may replace it
  bool is_rollback = false;                 // named, in --save
};

struct RunStart {
  std::shared_ptr<const SaveDirectory> save;  // --save; rank 0 locked it before it looked there
  std::optional<ModelSource> source;          // weights to load; empty: initialize
  std::optional<TrainState> state;            // the training state, in a resume
  StartPoint point;
  GptConfig config;  // set by the caller when resolved
};

/// Rank 0 only: looks at --save and at --load. `save` is the locked --save folder; null: it is locked first (a dry run
/// locks nothing). `damaged` lists checkpoints that failed to load. The caller refuses to start fresh where
/// --exit-on-missing-checkpoint is given.
RunStart find_start(const TrainOptions& options, std::shared_ptr<const SaveDirectory> save,
                    const std::vector<std::string>& damaged, Console& console);

/// Sets the vocabulary size of a loaded model that does not state it: the tokenizer's size, or 0 without a tokenizer.
void settle_vocabulary(RunStart& start, std::int64_t tokenizer_size, Console& console);

/// Collective: every rank opens the start that find() returns on rank 0. All ranks throw what find() throws.
RunStart share_start(const std::function<RunStart()>& find, const TrainOptions& options, Communicator& world);

/// Collective, once the start is loaded: rank 0 renames the checkpoints of --save that are later, to iter_N.damaged or,
/// in a rollback, iter_N.rolled_back, and reports the start. A rollback first verifies the whole checkpoint.
void settle_start(const StartPoint& start, const TrainOptions& options, Communicator& world, Console& console);

/// Collective, after a start that failed to load: whether its files are damaged, so that another checkpoint may take
/// its place. Never for one that was named.
bool is_damaged(const StartPoint& start, Communicator& world, Console& console);

/// The iteration of --save that the flags roll back to.
std::optional<std::int64_t> rollback_target(const CheckpointOptions& flags);
/// What the checkpoints of a run record of its rollback: a requeue of the same command does not repeat it. Null without
/// one.
Json rollback_record(const TrainOptions& options);

/// The default folder of tokenizer files, used if no flags name a tokenizer: the loaded model's. Empty without one.
std::string tokenizer_folder(const RunStart& start);

/// True if two paths name the same file or folder, which need not exist.
bool is_same_path(const std::string& a, const std::string& b);

}  // namespace mtl
