// Softmax cross-entropy over the vocabulary, in two phases, so that each rank can have a vocabulary shard. Between the
// phases, the three statistics are combined over the ranks.
//
//   max = max_v z[v],  sum = sum_v exp(z[v] - max),  target = z[label]
//   loss = log(sum) + max - target
//   z-loss = coefficient * lse^2, with lse = log(sum) + max (PaLM, arXiv:2204.02311, section 5)
//   dz[v] = loss_scale * weight * (exp(z[v] - max) / sum * (1 + 2 coefficient lse) - [v == label])
//
// logits (N, V) are the vocabulary's columns [begin, begin + V) (VocabSlice). Only the first `valid` columns are used.
// The others are padding, which is ignored and gets dz = 0. Losses and weights (one per row) are fp32. Logits are fp32,
// and dz has the compute dtype; or both are bf16. Arithmetic is fp32 either way.
#pragma once

#include "device/step_state.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// The z-loss keeps log sum exp(z) near 0. It is reported apart: no loss includes it, but the gradient does.
struct ZLoss {
  float coefficient = 0;  // 0: none
  Tensor losses = {};     // (N) f32, which backward writes; absent if there is none
};

struct VocabSlice {
  std::int64_t begin = 0;  // index of column 0 in the vocabulary
  std::int64_t valid = 0;  // columns that are not padding
};

/// Writes stats (N, 3): max, sum, target (0 if the label is in another slice). labels (N) i32.
void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice);

/// Combines the slices' stats, parts (P, N, 3), in order into stats for the entire vocabulary. A single part is copied
/// unchanged.
void cross_entropy_combine(Stream& stream, Tensor stats, Tensor parts);

/// Writes losses (N) from complete stats.
void cross_entropy_loss(Stream& stream, Tensor losses, Tensor stats);

/// Writes dlogits (N, V) as f32, bf16 or f16; in the dtype of `logits`, dlogits can be `logits` itself. Leaves `logits`
/// undefined.
/// weights (N) is d(total loss)/d(row's loss). The loss scale comes from `state`, or is 1 if that is null.
void cross_entropy_backward(Stream& stream, Tensor dlogits, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice, const StepState* state = nullptr, const ZLoss& z_loss = {});

/// Writes losses (N) and dlogits in one pass, for logits over the entire vocabulary, whose first `valid` columns are
/// not padding. Produces the same bits as the two phases, but reads a row from memory only once if it fits into a GPU's
/// shared memory, or if a cache still holds it when its gradient is written. Leaves `logits` undefined.
void cross_entropy_forward_backward(Stream& stream, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                                    Tensor weights, std::int64_t valid, const StepState* state = nullptr,
                                    const ZLoss& z_loss = {});

/// sum (1) f64 = or += the sum over losses whose weight is not 0, in fp64 and in a fixed order. `losses` and `weights`
/// must have the same shape.
void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode);

}  // namespace mtl
