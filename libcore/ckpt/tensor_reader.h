// How ModelSource reads the canonical tensors of an open model, in any format.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/model_dropout.h"
#include "layout/slice.h"
#include "nn/gpt_config.h"

namespace mtl {

class TensorReader {
 public:
  GptConfig config;
  std::string kind;  // see ModelSource::kind(), which sets it
  std::string folder;
  std::optional<TrainState> state;
  Json hf_config;                       // null if there is none
  std::optional<ModelDropout> dropout;  // empty: the files do not state it
  std::vector<SavedTensor> tensors;     // "KIND.NAME": ckpt/canonical.h
  std::string optimizer_problem;  // why the files' optimizer state cannot be used; "" if it can, or if there is none
  bool has_padded_vocabulary = false;  // the last tokens may be padding, because the files do not state the number

  virtual ~TensorReader() = default;
  /// Reads a slice of tensors[index], in the stored dtype, into `out` (slice.count() elements).
  virtual void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const = 0;
  /// See ModelSource::find_nonfinite().
  virtual std::vector<NonfiniteTensor> find_nonfinite(std::size_t index) const;
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

/// Copies the elements that the slices `piece` and `want` have in common. `from` contains all elements of `piece`; `to`
/// contains all elements of `want`. Returns the number of copied elements.
std::int64_t copy_overlap(const Slice& piece, std::span<const std::byte> from, const Slice& want,
                          std::span<std::byte> to, std::size_t element_bytes);

/// Returns a shape as text for messages: "(512, 64)".
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Opens the folder of one checkpoint, such as SAVE/iter_0001000.
std::unique_ptr<TensorReader> open_checkpoint(const std::string& folder);

}  // namespace mtl
