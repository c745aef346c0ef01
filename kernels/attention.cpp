#include "kernels/attention.h"

#include "kernels/dispatch.h"

namespace mtl {

namespace {

Shape out_shape(const AttentionSizes& sizes) {
  return {sizes.batch, sizes.length, sizes.groups * sizes.heads, sizes.dim};
}
Shape logsumexp_shape(const AttentionSizes& sizes) { return {sizes.batch, sizes.groups * sizes.heads, sizes.length}; }

/// Two products over D for each of a number of scores per head.
double flops(const AttentionSizes& sizes, double scores) {
  return 4.0 * static_cast<double>(sizes.batch * sizes.groups * sizes.heads * sizes.dim) * scores;
}
/// FLOPs of forward: the causal half of T x T scores.
double forward_flops(const AttentionSizes& sizes) {
  return flops(sizes, static_cast<double>(sizes.length * sizes.length) / 2);
}

AttentionSizes checked_sizes(const AttentionInput& in) {
  require(in.qkv.shape().rank() == 5 && in.qkv.size(3) >= 3, "attention: qkv must be (B, T, G, R + 2, D), got ",
          in.qkv.shape().text());
  AttentionSizes sizes = in.sizes();
  expect_tensor("attention: qkv", in.qkv, DType::f32, in.qkv.shape());
  require(in.dropout.probability >= 0 && in.dropout.probability < 1, "attention: a dropout of ", in.dropout.probability,
          " is not in [0, 1)");
  require(!in.dropout.active() || attention_dropout_threshold(in.dropout.probability) < 256, "attention: a dropout of ",
          in.dropout.probability, " keeps nothing at a resolution of 1 / 256");
  if (in.dropout.active()) {
    expect_tensor("attention: samples", in.rows.samples, DType::i64, {sizes.batch});
    require(in.rows.first_row == 0 && in.rows.seq_length == sizes.length, "attention: rows must be whole sequences");
  }
  require(in.scale > 0, "attention: scale must be positive, got ", in.scale);
  if (in.document_start.exists()) {
    expect_tensor("attention: document_start", in.document_start, DType::i32, {sizes.batch, sizes.length});
  }
  return sizes;
}

}  // namespace

void attention_forward(Stream& stream, Arena& scratch, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  AttentionSizes sizes = checked_sizes(in);
  expect_tensor("attention: out", out, DType::f32, out_shape(sizes));
  expect_tensor("attention: logsumexp", logsumexp, DType::f32, logsumexp_shape(sizes));
  Arena::Mark mark(scratch);
  Tensor work = make_work<cpu::attention_forward_work, cuda::attention_forward_work>(stream, scratch, sizes);
  stream.count(forward_flops(sizes), static_cast<double>(in.qkv.bytes() + out.bytes() + logsumexp.bytes()));
  run<cpu::attention_forward, cuda::attention_forward>(stream, work, out, logsumexp, in);
}

void attention_backward(Stream& stream, Arena& scratch, Tensor dqkv, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in) {
  AttentionSizes sizes = checked_sizes(in);
  expect_tensor("attention: dqkv", dqkv, DType::f32, in.qkv.shape());
  expect_tensor("attention: dout", dout, DType::f32, out_shape(sizes));
  expect_tensor("attention: out", out, DType::f32, out_shape(sizes));
  expect_tensor("attention: logsumexp", logsumexp, DType::f32, logsumexp_shape(sizes));
  Arena::Mark mark(scratch);
  Tensor work = make_work<cpu::attention_backward_work, cuda::attention_backward_work>(stream, scratch, sizes);
  stream.count(2.5 * forward_flops(sizes),
               static_cast<double>(2 * in.qkv.bytes() + 2 * out.bytes() + logsumexp.bytes()));
  run<cpu::attention_backward, cuda::attention_backward>(stream, work, dqkv, dout, out, logsumexp, in);
}

void attention_cached(Stream& stream, Arena& scratch, Tensor out, const AttentionInput& in, const KvCache& cache) {
  AttentionSizes sizes = checked_sizes(in);
  require(!in.document_start.exists() && !in.dropout.active(),
          "attention: a cache goes with neither documents nor dropout");
  expect_tensor("attention: out", out, DType::f32, out_shape(sizes));
  require(cache.keys.shape().rank() == 4, "attention: cached keys must be (B, S, G, D), got ",
          cache.keys.shape().text());
  std::int64_t capacity = cache.keys.size(1);
  expect_tensor("attention: cached keys", cache.keys, DType::f32, {sizes.batch, capacity, sizes.groups, sizes.dim});
  expect_tensor("attention: cached values", cache.values, DType::f32, {sizes.batch, capacity, sizes.groups, sizes.dim});
  expect_tensor("attention: cache lengths", cache.lengths, DType::i32, {sizes.batch});
  require(sizes.length <= capacity, "attention: the cache holds ", capacity, " positions, ", sizes.length, " are new");
  Arena::Mark mark(scratch);
  Tensor work = make_work<cpu::attention_cached_work, cuda::attention_cached_work>(stream, scratch, sizes, capacity);
  const std::int64_t pairs = sizes.length * capacity - sizes.length * (sizes.length - 1) / 2;
  stream.count(flops(sizes, static_cast<double>(pairs)),
               static_cast<double>(in.qkv.bytes() + out.bytes() + cache.keys.bytes() + cache.values.bytes()));
  run<cpu::attention_cached, cuda::attention_cached>(stream, work, out, in, cache);
}

}  // namespace mtl
