// The interface through which ModelSource reads the canonical tensors of one opened model in any format.
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
  std::string kind;  // "checkpoint": see ModelSource::kind
  std::string folder;
  std::optional<TrainState> state;
  Json hf_config;                      // null without one
  std::vector<SavedTensor> tensors;    // "KIND.NAME": ckpt/canonical.h
  std::string optimizer_problem;       // why `tensors` lack the optimizer's state in the files; "" if they do not
  bool has_padded_vocabulary = false;  // the last tokens may be padding: the files do not state how many

  virtual ~TensorReader() = default;
  /// Reads a slice of tensors[index], in the stored dtype, into `out` (slice.count() elements).
  virtual void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const = 0;
  /// If the format has hashes, verifies the stored bytes that hold this slice, each once.
  virtual void verify_slice(std::size_t, const Slice&) const {}
  /// If the format has their hashes, verifies the files without tensors, such as the tokenizer's.
  virtual void verify_companions() const {}
  /// If the format has hashes, verifies every file.
  virtual void verify() const {}
  /// Returns lines that distinguish this model from another in a folder of the same name (see ModelSource).
  virtual std::string identity() const = 0;
  /// Bytes of tensors read from files so far; bytes that are verified and then read count once.
  std::uint64_t bytes_read() const { return bytes_read_; }

 protected:
  mutable std::uint64_t bytes_read_ = 0;
  /// Throws Error(bad_data) unless `tensors` are exactly the parameters of `config` and the optimizer states of all
  /// parameters or of none; lists up to eight that are missing, extra, of another shape or of an unsupported dtype.
  void check_complete() const;
};

/// Copies the elements that `piece` and `want` share: `from` holds the elements of `piece`, `to` those of `want`.
/// Returns the number of copied elements.
std::int64_t copy_overlap(const Slice& piece, std::span<const std::byte> from, const Slice& want,
                          std::span<std::byte> to, std::size_t element_bytes);

/// "(512, 64)", for messages.
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Opens the folder of one checkpoint, such as SAVE/iter_0001000.
std::unique_ptr<TensorReader> open_checkpoint(const std::string& folder);

}  // namespace mtl
