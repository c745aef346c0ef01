// Checkpoints: a folder appears complete, or not at all. Format: mtl-checkpoint(5).
//
//   SAVE/iter_0001000/shard_00000.safetensors   param.NAME and STATE.NAME, canonical and unpadded
//   SAVE/iter_0001000/shard_00001.safetensors   ... one by every rank that has something to write
//   SAVE/iter_0001000/manifest.json             iteration, configuration, state, slices of tensors, sizes and hashes
//   SAVE/latest_checkpointed_iteration.txt      a hint for people and scripts
//   SAVE/lock                                   held by the job that saves here: by its first rank
//
// Commit: every rank writes and syncs its shard in iter_0001000.tmp.PID; the first rank gathers what all say of theirs,
// writes the manifest, syncs the folder, renames it, syncs its parent; then the tracker; only then old checkpoints go.
// Whatever happens on the way, to whichever rank, the checkpoints committed before stay as they are, all ranks throw
// the same error, and what is left behind (*.tmp.*) is removed by the next save.
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
  Json extra = Json::object();  // what the trainer wants back: identities of data files, seed, flags

  bool operator==(const TrainState& other) const;
};

/// A whole tensor of a checkpoint, however many pieces it is stored in.
struct SavedTensor {
  std::string name;  // "param.embedding.tokens.weight"
  StoredDType dtype = StoredDType::f32;
  std::vector<std::int64_t> shape;
};

/// A tensor, or a slice of one, to be written to a checkpoint. `bytes` returns its elements; it is called once, and
/// what it returned must stay until the next call of anybody's.
struct TensorToSave {
  SavedTensor tensor;
  Slice slice;
  std::function<std::span<const std::byte>()> bytes;
};

struct SaveOptions {
  std::string command_line = {};
  std::int64_t keep_last = 0;  // checkpoints to keep, this one included: at least 2; 0 keeps all
  /// Writes further files (a tokenizer's) into the folder, through base/files.h; they come under the manifest's hashes.
  /// Called on the first rank alone.
  std::function<void(const std::string& folder)> add_files = {};
  std::int64_t block_bytes = 4 << 20;  // a load reads and verifies blocks of this size
};

/// The newest checkpoint in a folder whose manifest is sound and whose files are all there in their sizes (hashes are
/// verified by the load). Empty when there is no checkpoint at all; throws Error(bad_data) when there are some and
/// none is sound, and SystemError when this user may not read one. Those in `damaged`, which failed to load, are passed
/// over. The tracker is a hint: a warning says when it names another one. In a job rank 0 looks.
std::optional<std::string> newest_checkpoint(const std::string& directory, Console& console,
                                             const std::vector<std::string>& damaged = {});

/// The content of a checkpoint. The tensors are this rank's; the rest is alike on all ranks.
struct CheckpointContent {
  const GptConfig& config;
  const TrainState& state;
  std::function<std::vector<TensorToSave>()> tensors;
};

/// Collective over the control group: writes and commits DIRECTORY/iter_%07d; returns its path. When any rank fails
/// nothing is committed, and all throw the same AgreedError, which names the rank. The tensors of all
/// ranks together must be all of the model, without overlap. The caller makes sure that no other process saves there.
std::string commit_checkpoint(const std::string& directory, const CheckpointContent& content,
                              const SaveOptions& options, Communicator& control);

/// The right to save into a folder, which a job holds through its first rank. That rank takes it before it looks for a
/// checkpoint there: no other job can add or replace one afterwards.
class SaveDirectory {
 public:
  /// Makes the folder and locks it, for a process alone or the first rank of a job. Throws Error(failure) that names
  /// the owner when another job holds the lock; the lock of a dead process does not count.
  explicit SaveDirectory(std::string path);
  /// For the other ranks of a job, whose first rank holds the lock.
  static SaveDirectory of_other_rank(std::string path);
  /// Releases the lock. A folder that this made and that nothing was saved into is removed again.
  ~SaveDirectory();
  SaveDirectory(SaveDirectory&& other) noexcept = default;
  SaveDirectory& operator=(SaveDirectory&& other) noexcept;

  const std::string& path() const { return path_; }
  /// Identifies the run that saves here, in its logs: kept in PATH/run_id, made by the first call. First rank only.
  std::string run_id() const;
  std::optional<std::string> newest_valid(Console& console) const { return newest_checkpoint(path_, console); }
  /// Collective: commits values and, when the stores have them, moments. Every rank writes what it
  /// owns. Returns the checkpoint's path. Throws Error(failure) that names rank and tensor, and commits nothing, when
  /// any of them is not finite.
  std::string save(const GptConfig& config, const ParamStore& store, const TrainState& state,
                   const SaveOptions& options, Communicator& world) const;
  /// Collective: gives the committed checkpoint of state.iteration another state, in one step; its files stay as they
  /// are.
  void replace_state(const TrainState& state, Communicator& world) const;

  /// For a run that finds its last checkpoint, of `iteration`, committed: when the job that wrote it died before it
  /// could write the tracker and remove leftovers, this does both. Otherwise it changes nothing. First rank only.
  void settle_complete_run(std::int64_t iteration) const;

 private:
  SaveDirectory() = default;

  std::string path_;
  std::vector<std::string> made_folders_;  // by this object, outermost first
  std::optional<FileLock> lock_;           // the first rank's
};

}  // namespace mtl
