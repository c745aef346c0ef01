// A model on disk in any format: an mtl checkpoint, a Hugging Face folder, or a Megatron-LM checkpoint.
//
// Any layout loads any file: a rank reads only the slices of canonical tensors that it needs (from a checkpoint, the
// blocks that hold them). Opening a model checks names, shapes and dtypes. A load verifies the hashes of everything
// that this rank needs before it copies the first element (checkpoints have hashes, Megatron-LM's zip files a CRC-32).
// Damage in a part that no rank needs is not an error, but the ranks of a run together need everything. Throws
// Error(bad_data) that names file and tensor.
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

/// Facts that another program's files may lack, from flags. A fact that the files state takes precedence.
struct ModelSupplement {
  std::optional<std::int64_t> vocab_size;  // tokens without padding
  std::optional<std::int64_t> num_attention_heads;
};

class ModelSource {
 public:
  /// Opens a folder that mtl-train saves into (its newest valid checkpoint), one checkpoint in it (iter_0001000), a
  /// Hugging Face folder with config.json, or Megatron-LM's folder or file (megatron_folder.h). Recognizes `path` by
  /// its content; an error lists what was looked for. Warns about checkpoints that it skips. Throws Error(usage) when
  /// given.num_attention_heads contradicts the files.
  static ModelSource open(const std::string& path, Console& console, const ModelSupplement& given = {});
  /// The path that open() would open: the newest valid checkpoint of a folder that mtl-train saves into, the tracked
  /// one of Megatron-LM's folder, otherwise `path`. In a job, rank 0 calls it and sends the result to all ranks, so
  /// that they open the same model.
  static std::string find(const std::string& path, Console& console);
  ModelSource(ModelSource&&) noexcept;
  ModelSource& operator=(ModelSource&&) noexcept;
  ~ModelSource();

  const GptConfig& config() const;
  /// True when the last rows of the token embedding may be padding: the files do not state how many.
  bool has_padded_vocabulary() const;
  /// Keeps the first `tokens` rows if has_padded_vocabulary(); warns when `tokens` is empty. Has no effect when the
  /// model has fewer rows: the caller refuses that.
  void trim_vocabulary(std::optional<std::int64_t> tokens, Console& console);
  /// "checkpoint", "Hugging Face folder" or "Megatron-LM checkpoint".
  std::string kind() const;
  /// The folder that holds the files, and possibly the tokenizer's.
  const std::string& folder() const;
  /// The state of training; empty for a Hugging Face folder, and for a Megatron-LM checkpoint whose optimizer state is
  /// missing or not usable.
  std::optional<TrainState> state() const;
  /// Lines that distinguish this model from another in a folder of the same name, as on another host: for a checkpoint
  /// the hash of its manifest, which holds the hashes of all data; for others each weight file's size and a hash of
  /// samples, and for a Hugging Face folder the hash of config.json.
  std::string identity() const;
  /// config.json of a Hugging Face folder, or of the folder that a checkpoint was converted from; null otherwise.
  Json hf_config() const;

  /// Loads this rank's part of every parameter in the store: the main weights if there are any, rounded to their dtype,
  /// and the values, rounded from these. Leaves padding rows as they are. Throws Error(bad_data) when a dtype cannot
  /// hold an element that is finite in the file.
  void load_values(ParamStore& store) const;
  /// Like load_values, for a run that starts from these weights: rounds them to store.precision().load first.
  void load_initial_values(ParamStore& store) const;
  bool has_optimizer() const;
  /// Why the optimizer's state in the files cannot be used; empty when there is none, or it can be used.
  const std::string& optimizer_problem() const;
  /// Loads the update rule's states of the elements that this rank owns. Throws Error(bad_data) if !has_optimizer().
  void load_optimizer(ParamStore& store) const;

  /// All stored tensors, named by kind and canonical name: "param.NAME".
  const std::vector<SavedTensor>& tensors() const;
  /// Returns nullptr if no tensor has this name.
  const SavedTensor* find_tensor(const std::string& name) const;
  /// Reads a slice of a tensor, in the stored dtype, into `out` (slice.count() elements). Verifies the blocks first if
  /// the model is a checkpoint.
  void read(const std::string& name, const Slice& slice, std::span<std::byte> out) const;
  /// Verifies the hashes of all files, if the format has any, whether this rank needs the files or not.
  void verify() const;
  /// Bytes of tensors read from files so far; from a checkpoint in whole blocks, each counted once.
  std::uint64_t bytes_read() const;

 private:
  struct Row;
  void load(ParamStore& store, const std::vector<Row>& rows) const;
  void load_weights(ParamStore& store, std::vector<StoredDType> path) const;
  explicit ModelSource(std::unique_ptr<TensorReader> reader);
  std::unique_ptr<TensorReader> reader_;
};

}  // namespace mtl
