// Attention where each context-parallel rank holds a part of every sequence (SequencePart). Its queries attend to keys
// and values of all ranks, which the ranks exchange in one of two ways:
//
// - all_gather: A rank gathers the keys and values of whole sequences, and computes attention in one call, with the
//   same bits as a rank that holds whole sequences. The gradients of keys and values are summed over the ranks by a
//   reduce-scatter. Scratch memory holds two copies of the keys and values of whole sequences.
// - ring: Blocks of keys and values travel around the ring of ranks, from each rank to the next, while the rank
//   computes with the previous block; results are merged (Liu, Zaharia, Abbeel 2023). In backward, a block's
//   gradients travel with it and return to its owner. Scratch memory holds a few blocks.
//
// In a group of one rank, both are the operators of kernels/attention.h.
#pragma once

#include "kernels/attention.h"
#include "layout/layout.h"
#include "nn/context.h"

namespace mtl {

struct ContextRegion {
  ContextExchange exchange = ContextExchange::all_gather;

  /// Like attention_forward() and attention_backward(), for this rank's rows of whole sequences: q, k and v of `in` and
  /// all results are (B, T / ranks, ...), and in.rows.part says which rows these are. all_gather sums the gradients of
  /// keys and values over the ranks in the dtype of the activations: every rank's term is rounded, and then the sum.
  /// The ring rounds each rank's terms, but sums them, the gradients of queries and the outputs in fp32.
  void forward(Ctx& ctx, Tensor out, Tensor logsumexp, const AttentionInput& in) const;
  void backward(Ctx& ctx, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp, const AttentionInput& in) const;
};

}  // namespace mtl
