// The operators on the cpu. Arguments are those of the public functions, already checked; `partials` and the like are
// the scratch that the public functions took from the arena, so that a meta run counts it.
#pragma once

#include "kernels/adamw.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/layernorm.h"
#include "kernels/parallel.h"
#include "kernels/residual.h"

namespace mtl {

/// Sums over rows: each block of rows makes a partial sum, and these are added in order.
inline constexpr std::int64_t kMaxRowSums = 64;
inline Blocks row_sum_blocks(std::int64_t rows) {
  return {rows, std::max<std::int64_t>(16, (rows + kMaxRowSums - 1) / kMaxRowSums)};
}

namespace cpu {

void gemm(Stream& stream, Tensor c, const Operand& a, const Operand& b, GradMode mode, const Epilogue& epilogue);

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps);
/// partials (row_sum_blocks(N).number(), 2, C): sums of dgamma and dbeta; left out when neither is wanted.
struct LayerNormBackward {
  Grad dx, dgamma, dbeta;
  Tensor dy, gamma;
  Tensor partials;
};
void layernorm_backward(Stream& stream, const LayerNormBackward& args, const LayerNormCache& cache);

void residual_forward(Stream& stream, Tensor out, Tensor residual, Tensor branch, Tensor bias, const Dropout& dropout);
/// partials (row_sum_blocks(N).number(), C); left out when dbias is not wanted.
void residual_backward(Stream& stream, Tensor partials, Tensor dbranch, Grad dbias, Tensor dout,
                       const Dropout& dropout);

/// target (C) = or += the rows of partials, added in order.
void sum_partials(Stream& stream, Grad target, Tensor partials, std::int64_t offset, std::int64_t row_stride);

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table);
void embedding_backward(Stream& stream, Grad dtable, Tensor dout, Tensor tokens, std::int64_t vocab_begin);
void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout);
void positions_backward(Stream& stream, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout);

void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice);
void cross_entropy_combine(Stream& stream, Tensor stats, Tensor parts);
void cross_entropy_loss(Stream& stream, Tensor losses, Tensor stats);
void cross_entropy_backward(Stream& stream, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice);

/// p -= rate m / (root sqrt(v) + eps) + decay p, with m, v updated by grad * the gradient.
struct AdamWFactors {
  float grad, beta1, beta2, new1, new2, rate, root, eps, decay;
};
void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, const StepState* state);

void fill_zero(Stream& stream, Tensor out);
void copy(Stream& stream, Tensor out, Tensor in);
void add(Stream& stream, Tensor out, Tensor in);
void scale(Stream& stream, Tensor out, float factor);
/// partials (number of blocks) f64
inline constexpr std::int64_t kSumOfSquaresBlock = 65536;
void sum_of_squares(Stream& stream, Tensor partials, Tensor out, Tensor in, GradMode mode);
void find_nonfinite(Stream& stream, Tensor found, Tensor in);

}  // namespace cpu
}  // namespace mtl
