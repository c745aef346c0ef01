// A model on disk, whatever its format: a checkpoint of mtl or a Hugging Face folder.
//
// All-or-nothing: names, shapes and dtypes are checked when it is opened, the hash of every file (checkpoints have
// them) before the first element is copied. Errors are Error(bad_data) and name file and tensor. Any layout loads any
// file: parameters are read through slices of the canonical tensors.
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

class ModelSource {
 public:
  /// `path` is a folder: one that mtl-train saves into (its newest valid checkpoint is taken), one checkpoint in it
  /// (iter_0001000), or a Hugging Face folder with config.json. Which one is found out by looking; an error lists
  /// what was looked for. `console` hears of checkpoints passed over.
  static ModelSource open(const std::string& path, Console& console);
  ModelSource(ModelSource&&) noexcept;
  ModelSource& operator=(ModelSource&&) noexcept;
  ~ModelSource();

  const GptConfig& config() const;
  /// "checkpoint" or "Hugging Face folder".
  std::string kind() const;
  /// The folder of the files themselves; tokenizer files may lie there.
  const std::string& folder() const;
  /// Where training stood; empty for a Hugging Face folder.
  std::optional<TrainState> state() const;
  /// config.json of a Hugging Face folder, or of the one a checkpoint was converted from; null otherwise.
  Json hf_config() const;

  /// Values of every parameter in the store, converted to its type. Padding rows are left as they are.
  void load_values(ParamStore& store) const;
  bool has_optimizer() const;
  /// exp_avg and exp_avg_sq. Throws when the source has none.
  void load_optimizer(ParamStore& store) const;

  /// How a tensor is stored; its name is a canonical one, "param.", "exp_avg." or "exp_avg_sq." before it.
  const std::vector<SavedTensor>& tensors() const;
  /// The elements of a slice of it, in the stored type, into `out` (slice.count() elements).
  void read(const std::string& name, const Slice& slice, std::span<std::byte> out) const;
  /// All files against their hashes. Called by the loads; once is enough.
  void verify() const;

 private:
  explicit ModelSource(std::unique_ptr<TensorReader> reader);
  std::unique_ptr<TensorReader> reader_;
};

}  // namespace mtl
