// A model on disk in any format: an mtl checkpoint, a Hugging Face folder, or a Megatron-LM checkpoint.
//
// Every layout can load every format: a rank reads only the slices of canonical tensors that the rank needs (from a
// checkpoint, the blocks that hold those slices). Opening a model checks names, shapes and dtypes. Before a load copies
// the first element, it verifies the hashes of everything that this rank needs. Checkpoints have hashes, and
// Megatron-LM's zip files have a CRC-32 per entry. Damage in a part that no rank needs is not an error, but together
// the ranks of a run need every part. Damaged or unsuitable files throw Error(bad_data) that names the file and the
// tensor.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "ckpt/checkpoint.h"
#include "ckpt/stored_dtype.h"
#include "layout/slice.h"
#include "nn/gpt_config.h"
#include "optim/param_store.h"

namespace mtl {

class TensorReader;

/// Facts that another program's files may lack; the user gives them as flags. If the files state a fact, the value in
/// the files takes precedence.
struct ModelSupplement {
  std::optional<std::int64_t> vocab_size;  // tokens without padding
  std::optional<std::int64_t> num_attention_heads;
};

class ModelSource {
 public:
  /// Opens one of these: a folder that mtl-train saves into (the newest valid checkpoint in that folder), a single
  /// checkpoint (SAVE/iter_0001000), a Hugging Face folder with config.json, or a Megatron-LM folder or file
  /// (megatron_folder.h). Recognizes the format by the contents of `path`. If no format fits, the error message lists
  /// what open() looked for. Warns about each checkpoint that it skips. Throws Error(usage) if
  /// given.num_attention_heads contradicts the files.
  static ModelSource open(const std::string& path, Console& console, const ModelSupplement& given = {});
  /// Returns the path that open() would open: the newest valid checkpoint in a folder that mtl-train saves into, the
  /// checkpoint that the tracker of a Megatron-LM folder names, or otherwise `path`. In a job, rank 0 calls this
  /// function and sends the result to all ranks, so that all ranks open the same model.
  static std::string find(const std::string& path, Console& console);
  ModelSource(ModelSource&&) noexcept;
  ModelSource& operator=(ModelSource&&) noexcept;
  ~ModelSource();

  const GptConfig& config() const;
  /// True if the last rows of the token embedding may be padding, because the files do not state the vocabulary size.
  bool has_padded_vocabulary() const;
  /// If has_padded_vocabulary(), removes all rows of the token embedding and of the output layer after the first
  /// `tokens` rows. If `tokens` is empty, keeps all rows and warns. If the model has fewer than `tokens` rows, this
  /// function has no effect, and the caller must report the error.
  void trim_vocabulary(std::optional<std::int64_t> tokens, Console& console);
  /// Returns "checkpoint", "Hugging Face folder" or "Megatron-LM checkpoint".
  std::string kind() const;
  /// Returns the folder that holds the files of the model and possibly those of the tokenizer.
  const std::string& folder() const;
  /// Returns the training state. Empty for a Hugging Face folder, and for a Megatron-LM checkpoint whose optimizer
  /// state is missing or not usable.
  std::optional<TrainState> state() const;
  /// Returns lines of text that distinguish this model from another model in a folder with the same name, for example
  /// on another host. For a checkpoint: the hash of the manifest, which holds the hashes of all data. For the other
  /// formats: the size of each weight file and a hash of samples from the file. For a Hugging Face folder, the lines
  /// also include the hash of config.json.
  std::string identity() const;
  /// Returns config.json of a Hugging Face folder or, for a checkpoint, of the Hugging Face folder from which the
  /// checkpoint was converted; null if there is none.
  Json hf_config() const;

  /// Loads this rank's part of every parameter in the store. If the store has main weights, rounds the stored elements
  /// to the dtype of the main weights, and then rounds the main weights to the dtype of the values. Otherwise, rounds
  /// the stored elements to the dtype of the values. Leaves padding rows unchanged. Throws Error(bad_data) if an
  /// element is finite in the file but overflows one of the dtypes.
  void load_values(ParamStore& store) const;
  /// Like load_values(), for a run that starts from these weights: if store.precision().load is not f32, first rounds
  /// the stored elements to store.precision().load.
  void load_initial_values(ParamStore& store) const;
  bool has_optimizer() const;
  /// Returns the reason why the optimizer state in the files cannot be used. Empty if the state can be used, or if the
  /// files have no optimizer state.
  const std::string& optimizer_problem() const;
  /// Loads the update rule's states for the elements that this rank owns. Throws Error(bad_data) if has_optimizer() is
  /// false.
  void load_optimizer(ParamStore& store) const;

  /// Returns all stored tensors. A name consists of the kind and the canonical name: "param.NAME".
  const std::vector<SavedTensor>& tensors() const;
  /// Returns nullptr if no tensor has this name.
  const SavedTensor* find_tensor(const std::string& name) const;
  /// Reads a slice of a tensor, in the stored dtype, into `out`, which must have room for exactly slice.count()
  /// elements. If the model is a checkpoint, first verifies the blocks that hold the slice.
  void read(const std::string& name, const Slice& slice, std::span<std::byte> out) const;
  /// Verifies all files against their checksums, including files that this rank does not need. A no-op if the format
  /// has no checksums.
  void verify() const;
  /// Returns the number of bytes of tensors read from files so far. For a checkpoint, counts whole blocks, each block
  /// once.
  std::uint64_t bytes_read() const;

 private:
  struct Row;
  void load(ParamStore& store, const std::vector<Row>& rows) const;
  void load_weights(ParamStore& store, std::vector<StoredDType> path) const;
  explicit ModelSource(std::unique_ptr<TensorReader> reader);
  std::unique_ptr<TensorReader> reader_;
};

}  // namespace mtl
