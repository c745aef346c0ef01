// Softmax cross-entropy over the vocabulary, in two phases, so that each rank may hold a shard of the vocabulary:
// between them the three statistics are combined over the ranks.
//
//   max = max_v z[v],  sum = sum_v exp(z[v] - max),  target = z[label]
//   loss = log(sum) + max - target
//   dz[v] = loss_scale * weight * (exp(z[v] - max) / sum - [v == label])
//
// logits (N, V) hold the columns [begin, begin + V) of the vocabulary (VocabSlice). Only the first `valid` columns are
// used; the rest is padding, which is ignored and whose dz is 0. Logits, losses and weights (one per row) are fp32; dz
// has the dtype that layers compute with.
#pragma once

#include "device/step_state.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

struct VocabSlice {
  std::int64_t begin = 0;  // vocabulary number of column 0
  std::int64_t valid = 0;  // columns that are not padding
};

/// Writes stats (N, 3): max, sum, target (0 if the label is in another slice). labels (N) i32.
void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice);

/// Writes stats of the whole vocabulary from those of its slices, parts (P, N, 3), combined in order. A single part is
/// copied unchanged.
void cross_entropy_combine(Stream& stream, Tensor stats, Tensor parts);

/// Writes losses (N) from complete stats.
void cross_entropy_loss(Stream& stream, Tensor losses, Tensor stats);

/// Writes dlogits (N, V), f32, bf16 or f16; in f32 it may be logits itself. The contents of logits are undefined
/// afterward. weights (N) is d(total loss)/d(loss of the row); the loss scale is that of `state`, or 1 if it is null.
void cross_entropy_backward(Stream& stream, Tensor dlogits, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice, const StepState* state = nullptr);

/// Writes losses (N) and dlogits at once, for logits of the whole vocabulary, whose first `valid` columns are not
/// padding: the same bits as the phases in sequence, but each row is read from memory once. The contents of logits are
/// undefined afterward, too.
void cross_entropy_forward_backward(Stream& stream, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                                    Tensor weights, std::int64_t valid, const StepState* state = nullptr);

/// sum (1) f64 = or += the losses whose weight is not 0, in fp64 and in a fixed order. The shapes of losses and
/// weights are equal.
void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode);

}  // namespace mtl
