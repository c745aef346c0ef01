// Token embedding and position embedding. They are two operators, because ranks that shard the vocabulary sum their
// outputs between the two.
//
//   embedding:  out[n] = table[tokens[n]]                           dtable[v] = sum of dout over the places of token v
//   positions:  x[n] = dropout(x[n] + table[positions[n]])          dx = dropout'(dx), dtable[p] likewise, of that dx
//
// There are N rows of width C: the B T rows of a micro-batch, or some of them. tokens (N) i32; x and out (N, C).
// positions (B, T) i32 are the positions of the whole micro-batch; `rows` maps the rows of x to positions and dropout
// masks. The token table (V, C) holds the rows [vocab_begin, vocab_begin + V) of the vocabulary. The output for a token
// outside this range is zeros.
//
// Tables have the compute dtype T. `out` has dtype T or the dtype S of the residual stream; the caller thereby chooses
// the dtype in which ranks sum. x and dx have dtype S. dout may have any dtype that operators compute with. The
// gradient of a table has a separate dtype G (kernels/stream_types.h). Scatter-adds are fp32 sums in the order of
// places, regardless of the number of threads. A GPU first sums every 32 places of a row, and then adds these sums.
// GradMode::overwrite first clears the gradient. If G is narrower than fp32, a row is rounded once per call, regardless
// of how many places add to the row. For this purpose, and always on a GPU, the scratch memory holds the places sorted
// by row.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/dropout.h"
#include "kernels/row_map.h"

namespace mtl {

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table);
void embedding_backward(Stream& stream, Arena& scratch, Grad dtable, Tensor dout, Tensor tokens,
                        std::int64_t vocab_begin);

/// Works in place. A position outside the table is an error: the cpu throws, and a GPU adds nothing for this position.
/// If there is no table, only applies dropout.
void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows);
/// On entry, dx is the gradient with respect to forward's output; on return, the gradient with respect to forward's
/// input. The gradient of the table, if wanted, sums the gradients of the input before these are rounded to S.
void positions_backward(Stream& stream, Arena& scratch, Grad dtable, Tensor dx, Tensor positions,
                        const Dropout& dropout, const RowMap& rows);

}  // namespace mtl
