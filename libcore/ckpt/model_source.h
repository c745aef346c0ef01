// A model on disk, whatever its format: a checkpoint of mtl, a Hugging Face folder, or a checkpoint of Megatron-LM.
//
// Any layout loads any file: parameters are read through slices of the canonical tensors, and a rank reads what it
// needs and nothing else (of a checkpoint, the blocks that hold it). Names, shapes and dtypes are checked when it is
// opened. Each load is all or nothing: everything that this rank needs is compared with its hash (checkpoints have
// them) before the first element is copied. Damage in a part that no rank needs is not an error, but the ranks of a run
// together need everything. Errors are Error(bad_data) and name file and tensor.
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

/// Facts that the files of another program's model may lack; from flags. Has no effect where the files hold it.
struct ModelSupplement {
  std::optional<std::int64_t> vocab_size;  // tokens without padding
  std::optional<std::int64_t> num_attention_heads;
};

class ModelSource {
 public:
  /// `path` is a folder: one that mtl-train saves into (its newest valid checkpoint is taken), one checkpoint in it
  /// (iter_0001000), a Hugging Face folder with config.json, or Megatron-LM's (megatron_folder.h). Which one is
  /// recognized by its content; an error lists what was looked for. Warns of checkpoints that are passed over.
  static ModelSource open(const std::string& path, Console& console, const ModelSupplement& given = {});
  /// The folder that open() would take, without opening it: of a folder that mtl-train saves into the newest valid
  /// checkpoint, otherwise `path`. With several ranks, rank 0 asks and sends the answer to all, so that they open the
  /// same.
  static std::string find(const std::string& path, Console& console);
  ModelSource(ModelSource&&) noexcept;
  ModelSource& operator=(ModelSource&&) noexcept;
  ~ModelSource();

  const GptConfig& config() const;
  /// True when the last tokens of the vocabulary may be padding: the files do not state how many.
  bool has_padded_vocabulary() const;
  /// Then keeps the first `tokens`, or warns when that is empty.
  /// Has no effect on a model that states its vocabulary, nor when it has fewer rows: the caller refuses that.
  void settle_vocabulary(std::optional<std::int64_t> tokens, Console& console);
  /// "checkpoint", "Hugging Face folder" or "Megatron-LM checkpoint".
  std::string kind() const;
  /// The folder of the files themselves; tokenizer files may lie there.
  const std::string& folder() const;
  /// Where training stood; empty for a Hugging Face folder, and for a Megatron-LM checkpoint without its optimizer.
  std::optional<TrainState> state() const;
  /// Lines that distinguish this model from another in a folder of the same name, as on another host: the hash of a
  /// checkpoint's manifest, which holds those of all its data; of a Hugging Face folder the hash of config.json, and
  /// for each file of weights its size and a hash of its header and of some blocks of every tensor.
  std::string identity() const;
  /// config.json of a Hugging Face folder, or of the one a checkpoint was converted from; null otherwise.
  Json hf_config() const;

  /// This rank's part of every parameter in the store: its main weights where it has any, rounded to their dtype, and
  /// its values, rounded from these. Padding rows do not change. Throws Error(bad_data) where a dtype cannot
  /// hold an element that is finite in the file.
  void load_values(ParamStore& store) const;
  /// The same for a run that starts from these weights: they are rounded to store.precision().load first.
  void load_initial_values(ParamStore& store) const;
  bool has_optimizer() const;
  /// Why the state of an optimizer in the files cannot be used; empty when there is none, or it can.
  const std::string& optimizer_problem() const;
  /// The update rule's states of what this rank owns. Throws when the source has none.
  void load_optimizer(ParamStore& store) const;

  /// The dtype of a stored tensor; its name is a canonical one after its kind: "param.NAME".
  const std::vector<SavedTensor>& tensors() const;
  /// nullptr without it.
  const SavedTensor* find_tensor(const std::string& name) const;
  /// The elements of a slice of it, in the stored type, into `out` (slice.count() elements). Verifies what it reads.
  void read(const std::string& name, const Slice& slice, std::span<std::byte> out) const;
  /// All files against their hashes, needed here or not.
  void verify() const;
  /// Bytes of tensors that were read from files so far; of a checkpoint whole blocks, each once.
  std::uint64_t bytes_read() const;

 private:
  struct Row;
  void load(ParamStore& store, const std::vector<Row>& rows) const;
  void load_weights(ParamStore& store, std::vector<StoredDType> path) const;
  explicit ModelSource(std::unique_ptr<TensorReader> reader);
  std::unique_ptr<TensorReader> reader_;
};

}  // namespace mtl
