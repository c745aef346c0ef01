// The canonical tensors of one opened model in any format: ModelSource reads through this interface.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "layout/slice.h"
#include "nn/gpt_config.h"

namespace mtl {

class TensorReader {
 public:
  GptConfig config;
  std::string kind;  // for messages: "checkpoint"
  std::string folder;
  std::optional<TrainState> state;
  Json hf_config;                      // null without one
  std::vector<SavedTensor> tensors;    // "KIND.NAME": ckpt/canonical.h
  std::string optimizer_problem;       // why the optimizer's state in the files is not among `tensors`
  bool has_padded_vocabulary = false;  // the last tokens may be padding: the files do not state how many

  virtual ~TensorReader() = default;
  /// Reads a slice of tensors[index], in the stored dtype, into `out` (slice.count() elements).
  virtual void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const = 0;
  /// If the format has hashes, verifies the stored bytes that hold this slice, each once.
  virtual void verify_slice(std::size_t, const Slice&) const {}
  /// Likewise the files that are not tensors: the tokenizer's.
  virtual void verify_companions() const {}
  /// Likewise every file.
  virtual void verify() const {}
  /// Distinguishes this model from others in a folder of the same name: a line for each file that is loaded.
  virtual std::string identity() const = 0;
  /// Bytes of tensors read from files so far; verifying and then reading the same bytes counts once.
  std::uint64_t bytes_read() const { return bytes_read_; }

 protected:
  mutable std::uint64_t bytes_read_ = 0;
  /// Throws Error(bad_data) unless `tensors` are exactly the parameters of `config`, and the optimizer states of all of
  /// them or of none; lists tensors that are missing, extra, or of another shape or dtype.
  void check_complete() const;
};

/// Copies the part that `want` and `piece` share: `from` holds the elements of `piece`, `to` those of `want`. Returns
/// the number of copied elements.
std::int64_t copy_overlap(const Slice& piece, std::span<const std::byte> from, const Slice& want,
                          std::span<std::byte> to, std::size_t element_bytes);

/// "(512, 64)", for messages.
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Opens one checkpoint: iter_0001000.
std::unique_ptr<TensorReader> open_checkpoint(const std::string& folder);

}  // namespace mtl
