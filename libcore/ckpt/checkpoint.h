// Checkpoints: a folder appears complete, or not at all. Format: mtl-checkpoint(5).
//
//   SAVE/iter_0001000/shard_00000.safetensors   param.NAME, exp_avg.NAME, exp_avg_sq.NAME, canonical and unpadded
//   SAVE/iter_0001000/manifest.json             iteration, configuration, state, slices of tensors, sizes and hashes
//   SAVE/latest_checkpointed_iteration.txt      a hint for people and scripts
//   SAVE/lock                                   held by the process that saves here
//
// Commit: everything is written and synced in iter_0001000.tmp.PID, the manifest last; the folder is synced, renamed,
// its parent synced; then the tracker; only then old checkpoints go. Whatever happens on the way, the checkpoints
// committed before stay as they are, and what is left behind (*.tmp.*) is removed by the next save.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "ckpt/stored_dtype.h"
#include "layout/slice.h"
#include "nn/gpt_config.h"
#include "optim/param_store.h"

namespace mtl {

/// Where training stands, beside the tensors.
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

/// A tensor, or a slice of one, on its way into a checkpoint. `bytes` returns its elements; it is called once, and
/// what it returned must stay until the next call of anybody's.
struct TensorToSave {
  SavedTensor tensor;
  Slice slice;
  std::function<std::span<const std::byte>()> bytes;
};

struct SaveOptions {
  std::string command_line;
  std::int64_t keep_last = 0;  // checkpoints to keep, this one included: at least 2; 0 keeps all
  /// Writes further files (a tokenizer's) into the folder, through base/files.h; they come under the manifest's hashes.
  std::function<void(const std::string& folder)> add_files;
};

/// The newest checkpoint in a folder whose manifest is sound and whose files are all there in their sizes (hashes are
/// verified by the load). Empty when there is no checkpoint at all; throws Error(bad_data) when there are some and
/// none is sound. The tracker is a hint: `console` hears when it says something else.
std::optional<std::string> newest_checkpoint(const std::string& directory, Console& console);

/// Writes and commits DIRECTORY/iter_%07d; returns its path. Throws Error(io): then nothing is committed. The caller
/// makes sure that nobody else saves there.
std::string commit_checkpoint(const std::string& directory, const GptConfig& config,
                              const std::vector<TensorToSave>& tensors, const TrainState& state,
                              const SaveOptions& options);

/// The right to save into a folder. Makes the folder; throws Error(failure) that names the owner when another process
/// holds it. A dead owner's lock does not count.
class SaveDirectory {
 public:
  explicit SaveDirectory(std::string path);
  ~SaveDirectory();
  SaveDirectory(SaveDirectory&& other) noexcept;
  SaveDirectory& operator=(SaveDirectory&& other) noexcept;

  const std::string& path() const { return path_; }
  std::optional<std::string> newest_valid(Console& console) const { return newest_checkpoint(path_, console); }
  /// Commits values and, when the store has them, moments. Returns the checkpoint's path.
  std::string save(const GptConfig& config, const ParamStore& store, const TrainState& state,
                   const SaveOptions& options) const;

 private:
  std::string path_;
  int lock_ = -1;
};

/// For a run that finds its last checkpoint, of `iteration`, committed: when the job that wrote it died before it could
/// name it in the tracker and tidy up, this does. Otherwise it touches nothing.
void settle_complete_run(const std::string& directory, std::int64_t iteration);

}  // namespace mtl
