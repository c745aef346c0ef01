// Causal self-attention with query groups, document boundaries and dropout.
//
// For query t of head h (query group g = h / R, R = H / G heads read one key and value):
//   S[t, s] = scale * q[t, h] . k[s, g]      for document_start[t] <= s <= t, else masked
//   P       = softmax over s
//   o[t, h] = sum_s dropout(P)[t, s] v[s, g]
// Backward recomputes P from the row's logsumexp (Dao et al. 2022, algorithm 4):
//   dP = dropout'(do . v),  delta[t] = sum_d do[t, d] o[t, d],  dS = P (dP - delta)
//   dq = scale dS k,  dk = scale dS^T q,  dv = dropout(P)^T do
//
// qkv (B, T, G, R + 2, D): per group R queries, then the key, then the value. Accumulation in fp32; dk and dv are
// accumulated in a fixed order, whatever the number of threads. Counts the FLOPs of the causal half.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/dropout.h"
#include "kernels/row_map.h"

namespace mtl {

/// The sizes of one call.
struct AttentionSizes {
  std::int64_t batch, length, groups, heads, dim;  // B, T, G, R, D
};

struct AttentionInput {
  Tensor qkv;                   // (B, T, G, R + 2, D)
  Tensor document_start;        // (B, T) i32: the first position that t may see, 0 .. t; left out: 0
  float scale = 0;              // usually 1 / sqrt(D)
  Dropout dropout;              // on the probabilities
  RowMap rows;                  // whole sequences
  std::int64_t first_head = 0;  // global number of local head 0, for the dropout counter

  AttentionSizes sizes() const { return {qkv.size(0), qkv.size(1), qkv.size(2), qkv.size(3) - 2, qkv.size(4)}; }
};

/// Writes out (B, T, H, D) and logsumexp (B, H, T).
void attention_forward(Stream& stream, Arena& scratch, Tensor out, Tensor logsumexp, const AttentionInput& in);

/// Writes dqkv, shaped like qkv.
void attention_backward(Stream& stream, Arena& scratch, Tensor dqkv, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in);

/// Keys and values of the positions already seen, per sequence.
struct KvCache {
  Tensor keys;     // (B, S, G, D)
  Tensor values;   // (B, S, G, D)
  Tensor lengths;  // (B) i32: positions held
};

/// The same attention for T new positions that follow the cache: stores their keys and values at
/// lengths[b] .. lengths[b] + T - 1 and lets query t see everything up to itself. The caller advances lengths.
/// No document boundaries, no dropout. A cache that is full is an error: on the cpu it throws. Counts as if the cache
/// were full afterwards: how much it holds is known only where operators run.
void attention_cached(Stream& stream, Arena& scratch, Tensor out, const AttentionInput& in, const KvCache& cache);

}  // namespace mtl
