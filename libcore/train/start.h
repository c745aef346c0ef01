// Where a run starts from: nothing, a checkpoint of its own, or another model. Rank 0 decides; the other ranks of a job
// open what it found.
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

/// What a run starts from, in a few words: it outlives the files that are open.
struct StartPoint {
  std::string folder;                       // of a checkpoint or model; empty: initial weights
  std::string kind;                         // ModelSource::kind
  std::optional<std::int64_t> iteration{};  // that is resumed; empty: weights alone, or nothing
  bool is_own = false;                      // the newest checkpoint of --save
  bool is_named = false;                    // asked for by name: no other one will do
  bool is_rollback = false;                 // named, in --save
};

struct RunStart {
  std::shared_ptr<const SaveDirectory> save;  // --save; rank 0 locked it before it looked there
  std::optional<ModelSource> source;          // weights to load; empty: initialize
  std::optional<TrainState> state;            // where training stood, when this is a resume
  StartPoint point;
  GptConfig config;  // set by the caller once it is resolved
};

/// Rank 0 only: looks at --save and at --load. `save` is the locked --save folder; null: it is locked first (a dry run
/// locks nothing). `damaged` lists checkpoints that failed to load. The caller refuses to start fresh where
/// --exit-on-missing-checkpoint is given.
RunStart find_start(const TrainOptions& options, std::shared_ptr<const SaveDirectory> save,
                    const std::vector<std::string>& damaged, Console& console);

/// Settles the vocabulary of a loaded model that does not state it: the tokenizer's size, 0 without one.
void settle_vocabulary(RunStart& start, std::int64_t tokenizer_size, Console& console);

/// Collective: what find() returns on rank 0, opened by every rank. All throw what it throws.
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

/// The folder whose tokenizer files serve when no flags name a tokenizer: the loaded model's. Empty when there is none.
std::string tokenizer_folder(const RunStart& start);

/// Whether two paths lead to the same place, which need not exist.
bool is_same_path(const std::string& a, const std::string& b);

}  // namespace mtl
