// Checkpoints. A checkpoint's folder appears only when it is complete. Format: mtl-checkpoint(5).
//
//   SAVE/iter_0001000/shard_00000.safetensors   tensors param.NAME and STATE.NAME, canonical and unpadded
//   SAVE/iter_0001000/shard_00001.safetensors   ... one shard for each rank that has elements to write
//   SAVE/iter_0001000/manifest.json             iteration, configuration, state, slices of tensors, sizes and hashes
//   SAVE/latest_checkpointed_iteration.txt      the tracker: a hint for people and scripts
//   SAVE/best_checkpointed_iteration.txt        with --keep-best: the checkpoint that stays when old ones are removed
//   SAVE/failed_step.json                       with --rerun-mode: a step to compute on other machines
//   SAVE/run_id                                 identifies the run in its logs
//   SAVE/lock                                   held by rank 0 of the job that saves here
//
// To commit a checkpoint, every rank writes and syncs its shard in iter_0001000.tmp.PID. Rank 0 then gathers the
// manifest parts, writes the manifest, syncs the folder, renames it to its final name and syncs the parent folder.
// After that, rank 0 writes the tracker and the name of the best checkpoint, and only then removes old checkpoints. A
// failure at any point, on any rank, leaves earlier checkpoints intact. All ranks throw the same error, and the next
// save removes leftovers (*.tmp.*).
//
// The shards may be written by threads, from copies, while the ranks train: PendingSave. Everything else is the same.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/console.h"
#include "base/file_lock.h"
#include "base/json.h"
#include "ckpt/checkpoint_folder.h"
#include "comm/communicator.h"
#include "formats/stored_dtype.h"
#include "layout/slice.h"
#include "models/tensor_reader.h"
#include "nn/gpt_config.h"
#include "optim/param_memory.h"

namespace mtl {

/// A tensor, or a slice of one, to write to a checkpoint. `bytes` returns the slice's elements. The span that it
/// returns must stay valid until the next call to `bytes` for this or another tensor in the list.
struct TensorToSave {
  SavedTensor tensor;
  Slice slice;
  std::function<std::span<const std::byte>()> bytes;
};

struct SaveOptions {
  std::string command_line = {};
  bool states = true;  // save the update rules' states, too, not only weights
  KeptCheckpoints kept = {};
  std::optional<std::int64_t> best = {};  // iteration of the best checkpoint, which is kept besides; may be the new one
  /// Writes more files, such as a tokenizer's, into `folder`, using the functions in base/files.h. The manifest lists
  /// them with their hashes. Called only on rank 0.
  std::function<void(const std::string& folder)> add_files = {};
  std::int64_t block_bytes = 4 << 20;  // block size for reading and verifying data when loading
};

/// Opens the folder of one checkpoint, such as SAVE/iter_0001000.
std::unique_ptr<TensorReader> open_checkpoint(const std::string& folder);
/// Returns the path of the newest sound checkpoint: its manifest is valid, and every listed file has the listed size.
/// (Hashes are verified only when the checkpoint is loaded.) Returns empty if the folder has no checkpoint. Throws
/// Error(bad_data) if it has checkpoints but none is sound, SystemError if this user may not read a checkpoint, and
/// LfsPointerError if a checkpoint contains a Git LFS pointer.
/// Skips the checkpoints in `damaged`, which failed to load. Warns about each unsound checkpoint that it skips, and if
/// the tracker does not name the returned one. In a job, only rank 0 may call this function.
std::optional<std::string> newest_checkpoint(const std::string& directory, Console& console,
                                             const std::vector<std::string>& damaged = {});

/// What a checkpoint contains. `tensors` returns the tensors that this rank writes; `config` and `state` must be the
/// same on all ranks.
struct CheckpointContent {
  GptConfig config;
  TrainState state;
  std::function<std::vector<TensorToSave>()> tensors;
};

/// A checkpoint that has been begun and is not committed yet. The collective calls are over the control group. If a
/// rank fails, all ranks throw the same AgreedError, which says which rank failed. On rank 0, they call `warn` for each
/// older checkpoint or leftover that cannot be removed.
class PendingSave {
 public:
  /// Collective: creates the folder that all ranks write to.
  PendingSave(std::string directory, CheckpointContent content, SaveOptions options, Communicator& control,
              const Warn& warn);
  /// Abandons the save unless it is finished: a thread stops before its next tensor, and the folder is a leftover.
  ~PendingSave();
  PendingSave(const PendingSave&) = delete;

  /// Starts to write this rank's shard on a thread of its own, which keeps its error for finish(). The tensors' bytes
  /// must not change until finish() returns.
  void start_writing();
  /// Returns true while the thread writes.
  bool is_writing() const {
    return part_.valid() && part_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }
  /// Collective: waits until all shards are written, here if start_writing() was not called, and commits the
  /// checkpoint. Returns its path. A failure before the rename commits nothing.
  std::string finish(Communicator& control, const Warn& warn);

 private:
  std::string write();
  std::string commit(const std::vector<std::string>& parts, const Warn& warn) const;

  const std::string directory_;
  const CheckpointContent content_;
  const SaveOptions options_;
  const int rank_;
  std::string temporary_;
  std::future<std::string> part_;  // of the manifest, from the thread
  std::atomic<bool> is_abandoned_{false};
  std::thread thread_;
};

/// Collective over the control group: writes and commits DIRECTORY/iter_%07d as PendingSave does, and returns its path.
/// Together, all ranks' slices must cover every tensor in the model exactly once. The caller must ensure that no other
/// process saves into `directory`.
std::string commit_checkpoint(const std::string& directory, const CheckpointContent& content,
                              const SaveOptions& options, Communicator& control, const Warn& warn);

/// A job's exclusive right to save into a folder. Rank 0 takes the lock before it looks for a checkpoint there, so that
/// no other job can add or replace one afterwards.
class SaveDirectory {
 public:
  /// Creates and locks the folder. If an earlier job died while replacing a checkpoint, recovers that checkpoint. May
  /// be called only on rank 0 of a job or in a single-process run. If another job holds the lock, throws Error(failure)
  /// that says which. Ignores a dead process's lock. This and later calls warn on `console`, which must outlive the
  /// object, about older checkpoints and leftovers that cannot be removed: once for each.
  explicit SaveDirectory(std::string path, Console* console = nullptr);
  /// For ranks other than rank 0. Does not take the lock, which rank 0 holds.
  static SaveDirectory of_other_rank(std::string path);
  /// Releases the lock. If the save folder contains only the lock file, also removes the folders that this object
  /// created.
  ~SaveDirectory();
  SaveDirectory(SaveDirectory&& other) noexcept = default;
  SaveDirectory& operator=(SaveDirectory&& other) noexcept;

  const std::string& path() const { return path_; }
  /// Returns the id that identifies the run in its logs. The first call creates the id and writes it to PATH/run_id.
  /// Later calls, also in later jobs, read that file. Rank 0 only.
  std::string run_id() const;
  /// Collective: begins to commit the parameters and optimizer states in `params`. Every rank writes the elements it
  /// owns: with `copy`, on a thread and from a copy there, so that `params` may change meanwhile; otherwise in
  /// finish(). `copy` must remain until then. Throws Error(failure) if rank 0 has lost the lock.
  std::unique_ptr<PendingSave> begin(const GptConfig& config, const ParamMemory& params, const TrainState& state,
                                     const SaveOptions& options, Communicator& world,
                                     std::span<std::byte> copy = {}) const;
  /// Collective: commits the checkpoint and returns its path. If rank 0 has lost the lock, or if an element is NaN or
  /// infinite, commits nothing and throws Error(failure); in the latter case, the message includes the rank and the
  /// tensor.
  std::string finish(PendingSave& save, Communicator& world) const;
  /// Collective: atomically replaces the training state in the committed checkpoint of `state.iteration`. Does not
  /// change its other files. Before that, calls finish_commit().
  void replace_state(const TrainState& state, const KeptCheckpoints& kept, Communicator& world) const;

  /// Writes which checkpoint is the best one, which stays when old ones are removed; none if empty. Rank 0 only.
  void write_best(std::optional<std::int64_t> iteration) const { mtl::write_best(path_, iteration, warn_); }

  /// Completes a commit that was interrupted after the rename: if the newest checkpoint is for `iteration`, corrects
  /// the tracker, and removes leftovers and old checkpoints that are not `kept`. Otherwise does nothing. Rank 0 only.
  void finish_commit(std::int64_t iteration, const KeptCheckpoints& kept) const;

 private:
  SaveDirectory() = default;
  void check_lock(Communicator& world) const;

  std::string path_;
  std::vector<std::string> made_folders_;  // created by this object, outermost first
  std::unique_ptr<FileLock> lock_;         // held only on rank 0
  Warn warn_;                              // likewise
};

}  // namespace mtl
