// Softmax cross-entropy over the vocabulary. There are two phases, so that each rank may hold a shard of the
// vocabulary; between the phases, the three statistics are combined over the ranks.
//
//   max = max_v z[v],  sum = sum_v exp(z[v] - max),  target = z[label]
//   loss = log(sum) + max - target
//   dz[v] = loss_scale * weight * (exp(z[v] - max) / sum - [v == label])
//
// logits (N, V) hold the columns [begin, begin + V) of the vocabulary (VocabSlice). Only the first `valid` columns are
// used. The remaining columns are padding, which is ignored and whose dz is 0. Logits, losses and weights (one per row)
// are fp32. dz has the compute dtype.
#pragma once

#include "device/step_state.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

struct VocabSlice {
  std::int64_t begin = 0;  // index of column 0 in the vocabulary
  std::int64_t valid = 0;  // columns that are not padding
};

/// Writes stats (N, 3): max, sum, target (0 if the label is in another slice). labels (N) i32.
void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice);

/// Combines the stats of slices, parts (P, N, 3), in order into the stats of the whole vocabulary. A single part is
/// copied unchanged.
void cross_entropy_combine(Stream& stream, Tensor stats, Tensor parts);

/// Writes losses (N) from complete stats.
void cross_entropy_loss(Stream& stream, Tensor losses, Tensor stats);

/// Writes dlogits (N, V), which is f32, bf16 or f16; if f32, dlogits may be `logits` itself. The contents of `logits`
/// are undefined afterwards. weights (N) is d(total loss)/d(loss of the row). The loss scale is that of `state`, or 1
/// if `state` is null.
void cross_entropy_backward(Stream& stream, Tensor dlogits, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice, const StepState* state = nullptr);

/// Writes losses (N) and dlogits in one pass, for logits of the whole vocabulary, whose first `valid` columns are not
/// padding. Produces the same bits as the two phases, but reads each row from memory only once. The contents of
/// `logits` are undefined afterwards.
void cross_entropy_forward_backward(Stream& stream, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                                    Tensor weights, std::int64_t valid, const StepState* state = nullptr);

/// sum (1) f64 = or += the sum of the losses whose weight is not 0, in fp64 and in a fixed order. `losses` and
/// `weights` must have the same shape.
void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode);

}  // namespace mtl
