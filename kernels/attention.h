// Causal attention with query groups, document boundaries, a sliding window and dropout.
//
// Query t of head h (query group g = h / R, where R = H / G heads read one key and value) is position p(t) in its
// sequence:
//   S[t, s] = scale * q[t, h] . k[s, g]      for max(document_start[t], p(t) - window + 1) <= s <= p(t), else masked
//   P       = softmax over s
//   o[t, h] = sum_s dropout(P)[t, s] v[s, g]
// Backward recomputes P from the row's logsumexp (Dao et al. 2022, algorithm 4):
//   dP = dropout'(do . v),  delta[t] = sum_d do[t, d] o[t, d],  dS = P (dP - delta)
//   dq = scale dS k,  dk = scale dS^T q,  dv = dropout(P)^T do
//
// There are Tq queries and Tk keys; the keys are positions 0 .. Tk - 1, or a part of the positions (`key_part`), and s
// stands for their positions. q, k, v, o, their gradients and a key-value cache all have the same dtype: f32, bf16 or
// f16. logsumexp, probabilities and all sums are fp32; results are rounded once. dk and dv are accumulated in a fixed
// order, regardless of the number of threads. FLOPs are counted for the causal part, Tq (Tk - Tq / 2) scores per head,
// minus the scores that the window masks: max(0, p(t) + 1 - window) per query. Run time grows with this number. Keys
// and values before the first query's window are not read (by queries that are part of a sequence: up to 95 of them),
// nor those after the last query.
//
// Context parallelism calls the operators for the queries in a part of each sequence (`rows.part`), against all keys or
// the keys in a part. A query that sees none of these keys has o = 0 and logsumexp = -inf. On the CPU, a query's o is
// the same bits whichever queries are computed with it, and NaN in keys after a chunk's last query does not spread to
// the chunk.
#pragma once

#include <compare>

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/dropout.h"
#include "kernels/head_slice.h"
#include "kernels/row_map.h"

namespace mtl {

/// Queries (B, Tq, G, R, D), keys and values (B, Tk, G, 1, D).
struct Qkv {
  HeadSlice q, k, v;
};
/// Splits a tensor (B, T, G, R + 2, D), in which each group has R queries, then the key, then the value.
Qkv unpack_qkv(Tensor packed);

/// One call's sizes: B, Tq, the keys up to the last query (with `past` all Tk), G, R, D.
struct AttentionSizes {
  std::int64_t batch, queries, keys, groups, heads, dim;
  auto operator<=>(const AttentionSizes&) const = default;
};

struct AttentionInput {
  Qkv qkv;
  RowMap rows;                  // of the queries: p(t) = rows.first_row + rows.part.position(t, Tq)
  SequencePart key_part;        // key row s is at position key_part.position(s, Tk)
  Tensor past;                  // (B) i32, only with a cache: p(t) = past[b] + t, regardless of `rows`
  Tensor document_start;        // (B, Tq) i32: first position that query t attends to, 0 .. p(t); absent: 0. The CPU
                                // throws for other values, a GPU does not check
  std::int64_t window = 0;      // positions that a query attends to, including its own; 0: no limit
  float scale = 0;              // usually 1 / sqrt(D)
  Dropout dropout;              // of the probabilities; requires covers_sequences()
  std::int64_t first_head = 0;  // global index of local head 0, for the dropout counter

  AttentionSizes sizes() const;
  /// Returns an upper bound on how many distinct keys one sequence's queries attend to: sizes().keys, or fewer with a
  /// window.
  std::int64_t keys_in_reach() const;
  /// Returns p(t), without `past`.
  std::int64_t position(std::int64_t query) const {
    return rows.first_row + rows.part.position(query, qkv.q.tensor.size(1));
  }
  /// True if all positions in the sequences are queries and keys.
  bool is_whole() const;
  /// True if the queries are whole sequences or one of their parts, and so are the keys.
  bool covers_sequences() const;
  /// True for decoding: one query per head, without logsumexp, documents or dropout.
  bool decodes(const Tensor& logsumexp) const;
};

/// Writes out (B, Tq, H, D) and, if present, logsumexp (B, H, Tq). `past` cannot be combined with documents or dropout.
/// A query beyond the last key is an error: the CPU throws, a GPU does not check.
void attention_forward(Stream& stream, Arena& scratch, Tensor out, Tensor logsumexp, const AttentionInput& in);

/// Writes the gradients, of the same heads as in.qkv. With whole sequences, their tensors must contain no others: a GPU
/// overwrites all of them while it chooses between variants. Needs in.covers_sequences(). With parts, logsumexp and out
/// are those over all keys, of which the gradients of q are terms: their sum over all parts of the keys is dq. The
/// gradients of k and v are this part of the queries' terms.
void attention_backward(Stream& stream, Arena& scratch, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in);

/// Adds partial results of attention, over other keys of the same queries, to sums (Milakov, Gimelshein 2018):
///   l' = log(exp(l) + exp(m)),  out' = exp(l - l') out + exp(m - l') part
/// with l = logsumexp and m = part_logsumexp, both (B, H, T) f32; -inf stands for no keys. out (B, T, H, D) is f32, and
/// part has the same shape in any dtype that attention supports.
void attention_merge(Stream& stream, Tensor out, Tensor logsumexp, Tensor part, Tensor part_logsumexp);

/// Keys and values for earlier positions, per sequence.
struct KvCache {
  Tensor keys;     // (B, S, G, 1, D)
  Tensor values;   // (B, S, G, 1, D)
  Tensor lengths;  // (B) i32: positions stored
};

/// Stores keys and values (B, T, G, 1, D) for T new positions, in the cache's dtype, starting at position lengths[b].
/// The caller updates `lengths`. A full cache is an error: the CPU throws before writing, and a GPU drops positions
/// that do not fit.
void append_to_cache(Stream& stream, const KvCache& cache, const HeadSlice& k, const HeadSlice& v);

}  // namespace mtl
