// Checkpoints: a folder appears complete, or not at all. Format: mtl-checkpoint(5).
//
//   SAVE/iter_0001000/shard_00000.safetensors   param.NAME and STATE.NAME, canonical and unpadded
//   SAVE/iter_0001000/shard_00001.safetensors   ... one of each rank that has elements to write
//   SAVE/iter_0001000/manifest.json             iteration, configuration, state, slices of tensors, sizes and hashes
//   SAVE/latest_checkpointed_iteration.txt      a hint for people and scripts
//   SAVE/run_id                                 identifies the run in its logs
//   SAVE/lock                                   held by the first rank of the job that saves here
//
// Commit: every rank writes and syncs its shard in iter_0001000.tmp.PID; the first rank gathers the manifest parts,
// writes the manifest, syncs the folder, renames it, syncs its parent; then it writes the tracker, and only then
// removes old checkpoints. A failure at any point, on any rank, leaves earlier checkpoints as they are; all ranks throw
// the same error, and the next save removes leftovers (*.tmp.*).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/file_lock.h"
#include "base/json.h"
#include "ckpt/stored_dtype.h"
#include "comm/communicator.h"
#include "layout/slice.h"
#include "nn/gpt_config.h"
#include "optim/param_store.h"

namespace mtl {

/// The state of training without its tensors.
struct TrainState {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_valid_samples = 0;
  std::int64_t optimizer_steps = 0;     // updates made: AdamW's t
  std::int64_t skipped_iterations = 0;  // iterations without an update
  double loss_scale = 1;
  Json extra = Json::object();  // the trainer's own: identities of data files, seed, flags

  bool operator==(const TrainState& other) const;
};

/// The name, dtype and shape of a stored tensor, whose elements may be in any number of pieces.
struct SavedTensor {
  std::string name;  // "param.embedding.tokens.weight"
  StoredDType dtype = StoredDType::f32;
  std::vector<std::int64_t> shape;
};

/// A tensor, or a slice of one, to be written to a checkpoint. `bytes` returns the slice's elements; they must stay
/// valid until `bytes` of any tensor in the list is called.
struct TensorToSave {
  SavedTensor tensor;
  Slice slice;
  std::function<std::span<const std::byte>()> bytes;
};

struct SaveOptions {
  std::string command_line = {};
  std::int64_t keep_last = 0;  // checkpoints to keep, this one included: at least 2; 0 keeps all
  /// Writes further files (a tokenizer's) into the folder, through base/files.h; the manifest lists them with hashes.
  /// Called only on the first rank.
  std::function<void(const std::string& folder)> add_files = {};
  std::int64_t block_bytes = 4 << 20;  // a load reads and verifies blocks of this size
};

/// Returns the newest checkpoint with a sound manifest and all files in the listed sizes (a load verifies hashes);
/// empty if the folder has no checkpoint. Throws Error(bad_data) if none is sound, SystemError if this user may not
/// read one. Skips those in `damaged`, which failed to load. Warns about other checkpoints that it skips, and when the
/// tracker names another one. In a job, only rank 0 calls it.
std::optional<std::string> newest_checkpoint(const std::string& directory, Console& console,
                                             const std::vector<std::string>& damaged = {});

/// The content of a checkpoint. `tensors` returns this rank's tensors; config and state are equal on all ranks.
struct CheckpointContent {
  const GptConfig& config;
  const TrainState& state;
  std::function<std::vector<TensorToSave>()> tensors;
};

/// Collective over the control group: writes and commits DIRECTORY/iter_%07d; returns its path. The slices of all ranks
/// together must cover every tensor of the model exactly once. If a rank fails, all throw the same AgreedError, which
/// names the rank; a failure before the rename commits nothing. The caller ensures that no other process saves there.
std::string commit_checkpoint(const std::string& directory, const CheckpointContent& content,
                              const SaveOptions& options, Communicator& control);

/// A job's exclusive right to save into a folder. The first rank takes the lock before it looks for a checkpoint there:
/// no other job can add or replace one afterwards.
class SaveDirectory {
 public:
  /// Creates the folder, locks it, and recovers a checkpoint that a job died replacing. For the only process or the
  /// first rank of a job. Throws Error(failure) that names the owner when another job holds the lock; the lock of a
  /// dead process is ignored.
  explicit SaveDirectory(std::string path);
  /// For the other ranks of a job, whose first rank holds the lock.
  static SaveDirectory of_other_rank(std::string path);
  /// Releases the lock. Removes the folders that this object created if nothing was saved into them.
  ~SaveDirectory();
  SaveDirectory(SaveDirectory&& other) noexcept = default;
  SaveDirectory& operator=(SaveDirectory&& other) noexcept;

  const std::string& path() const { return path_; }
  /// The id of the run in its logs, stored in PATH/run_id, which the first call creates. First rank only.
  std::string run_id() const;
  /// Collective: commits the store's parameters and optimizer states; every rank writes the elements that it owns.
  /// Returns the checkpoint's path. Commits nothing if any element is not finite: throws Error(failure) that names rank
  /// and tensor.
  std::string save(const GptConfig& config, const ParamStore& store, const TrainState& state,
                   const SaveOptions& options, Communicator& world) const;
  /// Collective: atomically replaces the state in the committed checkpoint of state.iteration; its other files stay as
  /// they are. Also corrects the tracker and removes leftovers.
  void replace_state(const TrainState& state, Communicator& world) const;

  /// If the newest checkpoint is that of `iteration` and its job died between the rename and the end of the commit,
  /// writes the tracker and removes leftovers; otherwise changes nothing. First rank only.
  void finish_commit(std::int64_t iteration) const;

 private:
  SaveDirectory() = default;

  std::string path_;
  std::vector<std::string> made_folders_;  // by this object, outermost first
  std::optional<FileLock> lock_;           // the first rank's
};

}  // namespace mtl
