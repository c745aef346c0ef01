// Memory for the micro-batches of a step.
#pragma once

#include <vector>

#include "device/memory.h"
#include "engine/run_shape.h"
#include "nn/batch.h"

namespace mtl {

/// Returns a micro-batch, without `rotary`. Calls make(dtype, shape) for each of its tensors, those with 8-byte
/// elements first.
template <class Make>
Batch batch_of(const RunShape& shape, const Make& make) {
  const Shape tokens{shape.micro_batch, shape.rows_per_sequence()};
  return {.samples = make(DType::i64, Shape{shape.micro_batch}),
          .tokens = make(DType::i32, tokens),
          .positions = make(DType::i32, tokens),
          .labels = make(DType::i32, tokens),
          .loss_weights = make(DType::f32, tokens),
          .document_start = shape.documents ? make(DType::i32, tokens) : Tensor(),
          .z_loss = {shape.z_loss, shape.z_loss != 0 ? make(DType::f32, tokens) : Tensor()},
          .rotary = {},
          .part = shape.part(),
          .resets_positions = shape.resets_positions};
}

/// Memory for one step's micro-batches, and for the losses of their tokens.
class BatchBuffers {
 public:
  BatchBuffers(Device device, const RunShape& shape, Space space = Space::device);
  /// Returns the size of one micro-batch, in bytes.
  static std::size_t bytes(const RunShape& shape);
  const Batch& batch(int micro_batch) const { return batches_[micro_batch]; }
  /// Losses for a micro-batch's tokens, (B, T) f32. The last stage writes them, in backward and in evaluation.
  Tensor losses(int micro_batch) const { return losses_[micro_batch]; }
  /// Copies all micro-batches from `host`, which must be in Space::host. Works like mtl::copy_from_pinned().
  void copy_from_pinned(Stream& stream, const BatchBuffers& host) const;
  /// Copies micro-batch `from_micro_batch` in `from` to micro-batch `micro_batch`. Both must be on the same device.
  void copy(Stream& stream, int micro_batch, const BatchBuffers& from, int from_micro_batch) const;

 private:
  Tensor part(int micro_batch) const;

  std::int64_t part_bytes_;
  Buffer memory_;
  std::vector<Batch> batches_;
  std::vector<Tensor> losses_;
};

}  // namespace mtl
