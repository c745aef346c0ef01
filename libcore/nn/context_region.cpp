#include "nn/context_region.h"

namespace mtl {

namespace {

/// Returns rank `rank`'s keys and values (B, T / ranks, G, 2, D) in `parts` (ranks, B, T / ranks, G, 2, D).
Tensor part_of(const Tensor& parts, int rank) {
  return parts.rows(rank, 1).view({parts.size(1), parts.size(2), parts.size(3), parts.size(4), parts.size(5)});
}

/// Returns the shape of the parts of all ranks.
Shape parts_shape(const Tensor& keys, int ranks) {
  return {ranks, keys.size(0), keys.size(1), keys.size(2), 2, keys.size(4)};
}

HeadSlice keys_of(const Tensor& both) { return {both, 0, 1}; }
HeadSlice values_of(const Tensor& both) { return {both, 1, 1}; }

/// Returns the keys and values (B, T, G, 2, D) of whole sequences, in scratch memory.
Tensor gather_keys(Ctx& ctx, const AttentionInput& in) {
  Communicator& ranks = ctx.groups.over(Axis::context);
  const Tensor& keys = in.qkv.k.tensor;
  const Tensor whole =
      ctx.scratch.make(keys.dtype(), {keys.size(0), keys.size(1) * ranks.size(), keys.size(2), 2, keys.size(4)});
  Arena::Mark mark(ctx.scratch);
  const Tensor parts = ctx.scratch.make(keys.dtype(), parts_shape(keys, ranks.size()));
  const Tensor own = part_of(parts, ranks.rank());
  copy_heads(ctx.stream, keys_of(own), in.qkv.k);
  copy_heads(ctx.stream, values_of(own), in.qkv.v);
  ranks.all_gather(ctx.stream, parts, own).wait(ctx.stream);
  for (int rank = 0; rank < ranks.size(); ++rank)
    copy_heads(ctx.stream, {whole, 0, 2}, {part_of(parts, rank), 0, 2}, {.to = {rank, ranks.size()}});
  return whole;
}

/// Returns the rank's queries with the keys and values of whole sequences.
AttentionInput with_keys(AttentionInput in, const Tensor& whole) {
  in.qkv.k = keys_of(whole);
  in.qkv.v = values_of(whole);
  return in;
}

/// Sums the gradients of whole sequences' keys and values over the ranks, and writes this rank's rows of the sums.
/// `memory` has the same size as `gradients`.
void scatter_gradients(Ctx& ctx, const Qkv& grads, const Tensor& gradients, const Tensor& memory) {
  Communicator& ranks = ctx.groups.over(Axis::context);
  const Tensor parts = memory.view(parts_shape(grads.k.tensor, ranks.size()));
  for (int rank = 0; rank < ranks.size(); ++rank)
    copy_heads(ctx.stream, {part_of(parts, rank), 0, 2}, {gradients, 0, 2}, {.from = {rank, ranks.size()}});
  const Tensor own = part_of(parts, ranks.rank());
  ranks.reduce_scatter(ctx.stream, own, parts).wait(ctx.stream);
  copy_heads(ctx.stream, grads.k, keys_of(own));
  copy_heads(ctx.stream, grads.v, values_of(own));
}

/// Two buffers that take turns: while the rank computes with one, which it also sends to the next rank, the previous
/// rank's message arrives in the other.
class RingBuffers {
 public:
  RingBuffers(Ctx& ctx, DType dtype, const Shape& shape)
      : ctx_(ctx),
        ranks_(ctx.groups.over(Axis::context)),
        buffers_{ctx.scratch.make(dtype, shape), ctx.scratch.make(dtype, shape)} {}
  Tensor current() const { return buffers_[at_]; }
  /// Starts sending the current buffer and receiving the other.
  void exchange() {
    const int next = (ranks_.rank() + 1) % ranks_.size(),
              previous = (ranks_.rank() + ranks_.size() - 1) % ranks_.size();
    sends_[1 - at_].wait(ctx_.stream);  // of the buffer that receives
    sends_[at_] = ranks_.send(ctx_.stream, buffers_[at_], next, Channel::activations);
    receive_ = ranks_.receive(ctx_.stream, buffers_[1 - at_], previous, Channel::activations);
    ranks_.progress();
  }
  /// Waits for what exchange() receives, and makes it current.
  void turn() {
    receive_.wait(ctx_.stream);
    at_ = 1 - at_;
  }
  /// Waits until nothing reads the buffers any more.
  void finish() {
    for (const Work& send : sends_) send.wait(ctx_.stream);
  }

 private:
  Ctx& ctx_;
  Communicator& ranks_;
  Tensor buffers_[2];
  Work sends_[2], receive_;
  int at_ = 0;
};

/// Calls body(in, step) for the keys and values of every rank, its own first. `in` has this rank's queries and these
/// keys. The blocks are (B, T / ranks, G, 2, D).
template <class Body>
void over_ring(Ctx& ctx, const AttentionInput& in, const Body& body) {
  Communicator& ranks = ctx.groups.over(Axis::context);
  const Tensor& keys = in.qkv.k.tensor;
  RingBuffers blocks(ctx, keys.dtype(), {keys.size(0), keys.size(1), keys.size(2), 2, keys.size(4)});
  copy_heads(ctx.stream, keys_of(blocks.current()), in.qkv.k);
  copy_heads(ctx.stream, values_of(blocks.current()), in.qkv.v);
  for (int step = 0; step < ranks.size(); ++step) {
    const bool is_last = step + 1 == ranks.size();
    if (!is_last) blocks.exchange();
    AttentionInput with_block = with_keys(in, blocks.current());
    with_block.key_part = {(ranks.rank() + ranks.size() - step) % ranks.size(), ranks.size()};
    body(with_block, step);
    if (!is_last) blocks.turn();
  }
  blocks.finish();
}

/// Returns results (B, T, H, D) as heads of one group.
HeadSlice heads_of(const Tensor& results) {
  return {results.view({results.size(0), results.size(1), 1, results.size(2), results.size(3)}), 0, results.size(2)};
}

void ring_forward(Ctx& ctx, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  const bool is_sum = out.dtype() == DType::f32;
  const Tensor sum = is_sum ? out : ctx.scratch.make(DType::f32, out.shape()), part = ctx.scratch.like(out);
  const Shape rows{out.size(0), out.size(2), out.size(1)};
  if (!logsumexp.exists()) logsumexp = ctx.scratch.make(DType::f32, rows);
  const Tensor part_logsumexp = ctx.scratch.make(DType::f32, rows);
  over_ring(ctx, in, [&](const AttentionInput& with_block, int step) {
    if (step == 0) {
      attention_forward(ctx.stream, ctx.scratch, is_sum ? sum : part, logsumexp, with_block);
      if (!is_sum) copy_heads(ctx.stream, heads_of(sum), heads_of(part));
    } else {
      attention_forward(ctx.stream, ctx.scratch, part, part_logsumexp, with_block);
      attention_merge(ctx.stream, sum, logsumexp, part, part_logsumexp);
    }
  });
  if (!is_sum) copy_heads(ctx.stream, heads_of(out), heads_of(sum));
}

void ring_backward(Ctx& ctx, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  const Tensor &q = in.qkv.q.tensor, &k = in.qkv.k.tensor;
  const std::int64_t heads = in.qkv.q.count;
  const Shape query_shape{q.size(0), q.size(1), q.size(2), heads, q.size(4)};
  const Shape key_shape{k.size(0), k.size(1), k.size(2), 2, k.size(4)};
  const Tensor dq_sum = ctx.scratch.make(DType::f32, query_shape), dq = ctx.scratch.make(q.dtype(), query_shape),
               dkv = ctx.scratch.make(k.dtype(), key_shape);
  RingBuffers sums(ctx, DType::f32, key_shape);  // of the gradients of the block's keys and values
  over_ring(ctx, in, [&](const AttentionInput& with_block, int step) {
    attention_backward(ctx.stream, ctx.scratch, {{dq, 0, heads}, keys_of(dkv), values_of(dkv)}, dout, out, logsumexp,
                       with_block);
    if (step > 0) sums.turn();
    const HeadCopy how{.mode = step == 0 ? GradMode::overwrite : GradMode::accumulate};
    copy_heads(ctx.stream, {dq_sum, 0, heads}, {dq, 0, heads}, how);
    copy_heads(ctx.stream, {sums.current(), 0, 2}, {dkv, 0, 2}, how);
    sums.exchange();  // after the last step, the sums return to their owners
  });
  sums.turn();
  copy_heads(ctx.stream, grads.q, {dq_sum, 0, heads});
  copy_heads(ctx.stream, grads.k, keys_of(sums.current()));
  copy_heads(ctx.stream, grads.v, values_of(sums.current()));
  sums.finish();
}

}  // namespace

void ContextRegion::forward(Ctx& ctx, Tensor out, Tensor logsumexp, const AttentionInput& in) const {
  if (ctx.groups.over(Axis::context).size() == 1) return attention_forward(ctx.stream, ctx.scratch, out, logsumexp, in);
  Arena::Mark mark(ctx.scratch);
  if (exchange == ContextExchange::ring) return ring_forward(ctx, out, logsumexp, in);
  attention_forward(ctx.stream, ctx.scratch, out, logsumexp, with_keys(in, gather_keys(ctx, in)));
}

void ContextRegion::backward(Ctx& ctx, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                             const AttentionInput& in) const {
  if (ctx.groups.over(Axis::context).size() == 1)
    return attention_backward(ctx.stream, ctx.scratch, grads, dout, out, logsumexp, in);
  Arena::Mark mark(ctx.scratch);
  if (exchange == ContextExchange::ring) return ring_backward(ctx, grads, dout, out, logsumexp, in);
  const Tensor whole = gather_keys(ctx, in), gradients = ctx.scratch.like(whole);
  attention_backward(ctx.stream, ctx.scratch, {grads.q, keys_of(gradients), values_of(gradients)}, dout, out, logsumexp,
                     with_keys(in, whole));
  scatter_gradients(ctx, grads, gradients, whole);
}

}  // namespace mtl
