// Token and position embedding.
//
//   out[b, t] = dropout(table[tokens[b, t]] + position_table[positions[b, t]])
//   dtable[v] = sum of dout over the places that hold token v (dropout's mask applied); likewise dposition_table
//
// tokens, positions (B, T) i32; out (B, T, C); table (V, C) holds the rows [vocab_begin, vocab_begin + V) of the
// vocabulary: a token outside them gives zeros, to be summed over the ranks that hold the rest. position_table (P, C)
// may be left out. Scatter-adds run in a fixed order, whatever the number of threads; overwrite clears first.
#pragma once

#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/dropout.h"

namespace mtl {

struct EmbeddingInput {
  Tensor tokens;     // (B, T) i32
  Tensor positions;  // (B, T) i32
  std::int64_t vocab_begin = 0;
};

/// Throws when a position is not within the table (a token outside it is another rank's).
void embedding_forward(Stream& stream, Tensor out, const EmbeddingInput& in, Tensor table, Tensor position_table,
                       const Dropout& dropout);

void embedding_backward(Stream& stream, Grad dtable, Grad dposition_table, Tensor dout, const EmbeddingInput& in,
                        const Dropout& dropout);

}  // namespace mtl
