// How ModelSource reads the canonical tensors of an open model, in any format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "formats/stored_dtype.h"
#include "layout/slice.h"
#include "models/model_dropout.h"
#include "nn/gpt_config.h"

namespace mtl {

/// The training state, without the tensors.
struct TrainState {
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_valid_samples = 0;
  std::int64_t optimizer_steps = 0;     // number of updates so far (AdamW's t)
  std::int64_t skipped_iterations = 0;  // iterations without an update
  double loss_scale = 1;
  Json extra = Json::object();  // for the trainer: data file identities, seed, flags

  bool operator==(const TrainState&) const = default;
};

/// Returns a number of iterations or samples. Throws Error(bad_data) unless it is from 0 to 2^53; `what` names it.
std::int64_t checked_progress(std::int64_t number, const char* what);
/// Sets the number of updates in state.iteration iterations, of which the others were skipped. Throws Error(bad_data)
/// if there are fewer iterations.
void set_optimizer_steps(TrainState& state, std::int64_t steps);

/// A stored tensor's name, dtype and shape. Its elements may be stored in multiple pieces.
struct SavedTensor {
  std::string name;  // "param.embedding.tokens.weight"
  StoredDType dtype = StoredDType::f32;
  std::vector<std::int64_t> shape;
};

/// A tensor with NaN or infinite elements, as it is stored: its file or folder, and its name there.
struct NonfiniteTensor {
  std::string file, name;
  std::size_t elements = 0, nonfinite = 0;
};

/// Facts that another program's files may not state, and that the user then gives as flags. Files that state their
/// vocabulary size ignore `vocab_size`; a number of heads that differs from the files' is an error unless `may_differ`.
struct ModelSupplement {
  std::optional<std::int64_t> vocab_size = {};  // tokens without padding
  std::optional<std::int64_t> num_attention_heads = {};
  std::string heads_flag = "--num-attention-heads";  // for messages
  bool may_differ = false;                           // the caller compares the number of heads
  std::string hf_config = {};                        // config.json, or its folder, for files without a configuration
};

class TensorReader {
 public:
  GptConfig config;
  std::string kind;  // see ModelSource::kind(), which sets it
  std::string folder;
  std::optional<TrainState> state;
  Json hf_config;                       // null if there is none
  std::optional<ModelDropout> dropout;  // empty: the files do not state it
  std::vector<SavedTensor> tensors;     // "KIND.NAME": models/canonical.h
  std::string optimizer_problem;  // why the files' optimizer state cannot be used; "" if it can, or if there is none
  bool has_padded_vocabulary = false;  // the last tokens may be padding, because the files do not state the number

  virtual ~TensorReader() = default;
  /// Reads a slice of tensors[index], in the stored dtype, into `out` (slice.count() elements).
  virtual void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const = 0;
  /// See ModelSource::find_nonfinite().
  virtual std::vector<NonfiniteTensor> find_nonfinite(std::size_t index) const;
  /// Returns the kinds of the tensors (models/canonical.h): "param", and the optimizer states' that the files have.
  std::vector<std::string> kinds() const;
  /// Returns how messages call tensors[index]: its name, as stored in a file.
  virtual std::string stored_name(std::size_t index) const { return cat("'", tensors[index].name, "'"); }
  /// If the format has hashes, verifies the stored bytes that contain this slice, unless an earlier call did.
  virtual void verify_slice(std::size_t, const Slice&) const {}
  /// If the format has hashes for files without tensors, such as the tokenizer's, verifies those files.
  virtual void verify_companions() const {}
  /// If the format has hashes, verifies every file. See ModelSource::verify().
  virtual void verify() const {}
  /// Returns lines of text that distinguish this model from another one in a folder with the same name (see
  /// ModelSource::identity()).
  virtual std::string identity() const = 0;
  /// Returns how many bytes of tensors have been read from files so far. Bytes that are first verified and then read
  /// count once.
  std::uint64_t bytes_read() const { return bytes_read_; }

 protected:
  mutable std::uint64_t bytes_read_ = 0;
  /// Throws Error(bad_data) unless `tensors` are exactly the parameters in `config`, or these and the optimizer states
  /// for all parameters. The error lists at most eight tensors that are missing, superfluous, of the wrong shape or of
  /// an unsupported dtype.
  void check_complete() const;
};

/// Throws Error(bad_data) about a tensor in a file or folder, by its name there.
template <class... Parts>
[[noreturn]] void refuse_tensor(const std::string& where, std::string_view name, const Parts&... parts) {
  fail_at(Exit::bad_data, where, "tensor '", printable_text(name), "' ", parts...);
}
/// Calls work(), which reads what a model can do without. Returns the message of an Error(bad_data), or "".
template <class Work>
std::string data_problem(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    return error.what();
  }
  return "";
}
/// Throws Error(bad_data) with at most eight of the problems, one per line.
[[noreturn]] void fail_problems(const std::string& where, std::vector<std::string> problems);

}  // namespace mtl
