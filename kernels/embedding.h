// Token embedding and position embedding. These are two operators because ranks that shard the vocabulary sum their
// outputs between the two.
//
//   embedding:  out[n] = table[tokens[n]]
//               dtable[v] = sum of dout[n] over all n with tokens[n] = v
//   positions:  x[n] = dropout(x[n] + table[positions[n]])
//               dx = dropout'(dx), dtable[p] = sum of this dx[n] over all n with positions[n] = p
//
// There are N rows of width C: all B T rows in a micro-batch, or some of them. tokens (N) i32; x and out (N, C).
// positions (B, T) i32 always covers the entire micro-batch, and `rows` maps the rows of x to positions and dropout
// masks. The token table (V, C) stores vocabulary rows [vocab_begin, vocab_begin + V). For a token outside this range,
// the output is zeros.
//
// Tables have the compute dtype T. `out` has dtype T or the residual stream's dtype S, so the caller chooses the dtype
// in which ranks sum. x and dx have dtype S. dout may have any dtype that operators compute with. A table's gradient
// has a separate dtype G (kernels/stream_types.h).
//
// Each n is called a place. Scatter-adds sum in fp32 and in place order, regardless of the thread count. A GPU first
// sums a table row's places in groups of 32, and then adds up the group sums. GradMode::overwrite clears the gradient
// first. If G is narrower than fp32, a row is rounded once per call, no matter how many places add to it. For this, and
// on a GPU, scratch memory holds the places sorted by row. A GPU does not sort positions that do not restart
// (RowMap::resets_positions).
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

/// Works in place. If a position is outside the table, the cpu throws and a GPU adds nothing for this position. Without
/// a table, only applies dropout.
void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows);
/// On entry, dx is the gradient with respect to forward's output. On return, it is the gradient with respect to
/// forward's input. The table's gradient, if wanted, sums the input gradients before we round them to S.
void positions_backward(Stream& stream, Arena& scratch, Grad dtable, Tensor dx, Tensor positions,
                        const Dropout& dropout, const RowMap& rows);

}  // namespace mtl
