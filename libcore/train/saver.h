// Where a run saves its state (--save), and which of its states are there already.
//
// A save begins with begin() and is committed by finish(). With --async-save, steps may run in between: begin() copies
// the state, and a thread of each rank writes the copy.
#pragma once

#include <memory>
#include <string>

#include "ckpt/checkpoint.h"
#include "ckpt/checkpoint_folder.h"
#include "train/run_choices.h"
#include "train/run_progress.h"
#include "train/step_runner.h"

namespace mtl {

class Saver {
 public:
  /// `directory` is null in a run without --save: it saves nothing. The caller must keep the other arguments alive.
  Saver(std::shared_ptr<const SaveDirectory> directory, const TrainOptions& options, RunProgress& run);

  bool has_directory() const { return directory_ != nullptr; }
  /// Returns the folder of this state's checkpoint.
  std::string checkpoint() const { return cat(directory_->path(), "/", folder_of(run_.state.iteration)); }
  /// Returns the file that a failed step leaves (failed_step.h).
  std::string failed_step_path() const { return cat(directory_->path(), "/", kFailedStepName); }
  /// Returns an id of the run, which later sessions that save into the directory share.
  std::string run_id() const { return directory_ ? directory_->run_id() : random_id(); }
  /// Must be called in a run that resumes the newest checkpoint in the directory.
  void note_resumed() {
    saved_ = now();
    persists_ = !run_.state.extra.is_object() || !run_.state.extra.bool_or(kNonPersistent, false);
  }
  /// Returns true if neither the newest checkpoint in the directory nor the pending save is of this state, so that a
  /// save would keep it.
  bool is_behind() const { return directory_ && saved_ != now(); }
  /// Returns the iteration of that checkpoint or save.
  std::int64_t newest_iteration() const { return saved_.iteration; }

  /// Returns false if the newest checkpoint is one of --non-persistent-save-interval.
  bool newest_persists() const { return !directory_ || persists_; }

  /// Collective: begins to save the state. No save may be pending. If it `copies` the state, steps may run until
  /// finish(). The checkpoint `persists`, unless the next one replaces it. `data` is TrainingData::identity().
  /// `tokenizer` may be null; it must remain until finish().
  void begin(bool copies, bool persists, StepRunner& steps, RunChoices& choices, const Json& data,
             const Tokenizer* tokenizer, Communicator& world);
  bool is_pending() const { return pending_ != nullptr; }
  /// Returns true while this rank's thread writes the pending save.
  bool is_writing() const { return is_pending() && pending_->is_writing(); }
  /// Collective: waits until all ranks have written the pending save, commits it, and returns the checkpoint's path. No
  /// save is pending afterwards, even if this throws.
  std::string finish(Communicator& world);
  /// Collective: makes the newest checkpoint, which is of this state, persist. No save may be pending.
  void keep(Communicator& world);
  /// Collective: writes to the directory which checkpoint is the best one. If that is not there, forgets it, and
  /// returns false. Must be called before the first step, after RunProgress::resume().
  bool check_best(Communicator& world);
  /// Collective: says in the checkpoint of this state that the run is complete, and which checkpoint is the best one.
  /// No save may be pending.
  void mark_finished(Communicator& world);
  /// Rank 0 only: completes the last commit of a complete run, if it was interrupted.
  void finish_commit() const { directory_->finish_commit(run_.state.iteration, kept()); }

 private:
  /// A state that a checkpoint keeps.
  struct SavePoint {
    std::int64_t iteration = -1;
    bool validation_is_due = false;  // this iteration's validation is not complete; a resumed run repeats it
    bool operator==(const SavePoint&) const = default;
  };
  KeptCheckpoints kept() const {
    const CheckpointOptions& flags = options_.checkpoint;
    return {flags.newest_kept(), flags.retained(), flags.non_persistent_interval.value_or(0) > 0};
  }
  SavePoint now() const { return {run_.state.iteration, run_.validation_is_due}; }

  std::shared_ptr<const SaveDirectory> directory_;
  const TrainOptions& options_;
  RunProgress& run_;
  SavePoint saved_;  // the newest checkpoint in the directory that this run began to write or resumed from
  bool persists_ = true;
  std::unique_ptr<PendingSave> pending_;
};

}  // namespace mtl
