// Token and position embedding, as two operators: between them the ranks that shard the vocabulary sum their outputs.
//
//   embedding:  out[n] = table[tokens[n]]                           dtable[v] = sum of dout over the places of token v
//   positions:  x[n] = dropout(x[n] + table[positions[n]])          dx = dropout'(dx), dtable[p] likewise, of that dx
//
// Rows N = (B T) or some of them, width C. tokens (N) i32; x, out (N, C). positions (B, T) i32 are those of the whole
// micro-batch: `rows` maps the rows of x to their positions and dropout masks. The token table (V, C) holds the rows
// [vocab_begin, vocab_begin + V) of the vocabulary: a token outside them gives zeros.
//
// Tables have the compute dtype T. out has T or the dtype S of the residual stream: the caller chooses the dtype in
// which ranks sum. x and dx have S, dout any dtype that operators compute with, and the gradient of a table a dtype G
// of its own (kernels/stream_types.h). Scatter-adds are fp32 sums in the order of places, whatever the number of
// threads; a GPU first sums every 32 places of a row, then adds these sums. GradMode::overwrite clears the gradient
// first. A narrower G is rounded once per call, however many places add to a row: for this, and on a GPU always, the
// scratch holds the places sorted by row.
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

/// In place. A position outside the table is an error: the cpu throws, a GPU adds nothing for it. With no table, only
/// dropout is applied.
void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows);
/// Replaces dx, the gradient of forward's result, with that of its input. The table's gradient, if wanted, sums the
/// input's gradient before it is rounded to S.
void positions_backward(Stream& stream, Arena& scratch, Grad dtable, Tensor dx, Tensor positions,
                        const Dropout& dropout, const RowMap& rows);

}  // namespace mtl
