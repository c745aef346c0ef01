// A model on disk in any format of model_formats.h: an mtl checkpoint, a Hugging Face folder, a checkpoint of
// Megatron-LM, DeepSpeed or torchtitan.
//
// Every layout can load every format: a rank reads only the slices of canonical tensors that it needs (from a
// checkpoint, the blocks that contain them). Opening a model checks names, shapes and dtypes. Before loading copies the
// first element, it verifies the hashes of everything that this rank needs. Checkpoints have hashes, and Megatron-LM's
// zip files have a CRC-32 per entry. Damage in a part that no rank needs is not an error, but together the ranks of a
// run need every part. Damaged or unsuitable files throw Error(bad_data) with the file and the tensor.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "formats/stored_dtype.h"
#include "layout/slice.h"
#include "models/extended_vocabulary.h"
#include "models/model_dropout.h"
#include "models/tensor_reader.h"
#include "nn/gpt_config.h"
#include "optim/param_memory.h"

namespace mtl {

class ModelSource {
 public:
  /// `reader` has opened the model; its `kind` is set.
  explicit ModelSource(std::unique_ptr<TensorReader> reader) : reader_(std::move(reader)) {}

  const GptConfig& config() const { return reader_->config; }
  /// True if the last token embedding rows may be padding, because the files do not state the vocabulary size.
  bool has_padded_vocabulary() const { return reader_->has_padded_vocabulary; }
  /// If has_padded_vocabulary(), removes all rows after the first `tokens` from the token embedding and the output
  /// layer. If `tokens` is empty, keeps all rows and warns. If the model has fewer than `tokens` rows, does nothing.
  /// `tokens` must be at least 1.
  void trim_vocabulary(std::optional<std::int64_t> tokens, Console& console);
  /// Adds rows to the token embedding and to the output layer, up to `tokens`. Every rank computes the same rows.
  /// load_optimizer() then fails, because there are no moments for them.
  void extend_vocabulary(std::int64_t tokens, NewRows rows, std::uint64_t seed);
  /// Returns the format's kind in model_formats.h, such as "checkpoint" or "Hugging Face folder".
  const std::string& kind() const { return reader_->kind; }
  /// Returns the folder that contains the model's files and possibly the tokenizer's.
  const std::string& folder() const { return reader_->folder; }
  /// Returns the training state; empty if the files have none, such as those of Hugging Face. A model with an
  /// optimizer_problem() may have a training state.
  const std::optional<TrainState>& state() const { return reader_->state; }
  /// Returns lines of text that distinguish this model from another one in a folder with the same name, for example on
  /// another host. For a checkpoint: the hash of the manifest, which contains the hashes of all data. For the other
  /// formats: each weight file's size and a hash of samples from it. For a Hugging Face folder, also the hash of
  /// config.json.
  std::string identity() const;
  /// Returns the config.json of a Hugging Face folder or, for a checkpoint, of the Hugging Face folder it was converted
  /// from. Null if there is none.
  const Json& hf_config() const { return reader_->hf_config; }

  /// Returns the dropout that the model was trained with. Empty if the files do not state it.
  const std::optional<ModelDropout>& dropout() const { return reader_->dropout; }

  /// Loads this rank's part of every parameter in `params`. If it has main weights, rounds the stored elements
  /// to the main weights' dtype, and then rounds the main weights to the values' dtype. Otherwise, rounds the stored
  /// elements to the values' dtype. Does not change padding rows. Throws Error(bad_data) if an element is NaN or
  /// infinite in the file, or overflows one of the dtypes.
  void load_values(ParamMemory& params) const;
  /// Like load_values(), for a run that starts from these weights: if params.precision().load is not f32, first rounds
  /// the stored elements to it.
  void load_initial_values(ParamMemory& params) const;
  bool has_optimizer() const { return reader_->kinds().size() > 1; }
  /// Returns how the stored optimizer state differs from what the rules keep; empty if it does not, or if there is
  /// none.
  std::string other_rules(const RuleSet& rules) const;
  /// Returns why a run cannot resume with the optimizer state in the files. Empty if it can, or if they have none.
  const std::string& optimizer_problem() const { return reader_->optimizer_problem; }
  /// Loads the update rule's states for the elements that this rank owns. Throws Error(bad_data) if has_optimizer() is
  /// false.
  void load_optimizer(ParamMemory& params) const;

  /// Returns all stored tensors. A name consists of the kind and the canonical name: "param.NAME".
  const std::vector<SavedTensor>& tensors() const { return reader_->tensors; }
  /// Returns nullptr if no tensor has this name.
  const SavedTensor* find_tensor(const std::string& name) const;
  /// Reads a slice of a tensor, in the stored dtype, into `out`, which must have room for exactly slice.count()
  /// elements. For a checkpoint, first verifies the blocks that contain the slice. From zip files, verifies an entry
  /// when its last byte is read, which may be after its other elements were returned: whoever uses them before that
  /// must call verify() before the result counts.
  void read(const std::string& name, const Slice& slice, std::span<std::byte> out) const;
  /// Reads an entire tensor. Returns the tensors in the files, of which it consists, that have NaN or infinite
  /// elements.
  std::vector<NonfiniteTensor> find_nonfinite(const std::string& name) const;
  /// Verifies all files against their checksums, including files that this rank does not need. Of zip entries, reads
  /// only what read() and earlier calls have not verified. Does nothing if the format has no checksums.
  void verify() const;
  /// Returns how many bytes of tensors have been read from files so far. For a checkpoint, counts entire blocks, each
  /// block once.
  std::uint64_t bytes_read() const { return reader_->bytes_read(); }

 private:
  struct Row;
  void load(ParamMemory& params, const std::vector<Row>& rows) const;
  void load_weights(ParamMemory& params, std::vector<StoredDType> path) const;
  std::unique_ptr<TensorReader> reader_;
};

}  // namespace mtl
