#include "kernels/attention.h"

#include <omp.h>

#include <algorithm>

#include "kernels/attention_cpu.h"
#include "kernels/parallel.h"

namespace mtl {

namespace {

/// The sizes of one call, taken from qkv (B, T, G, R + 2, D).
struct Sizes {
  explicit Sizes(const AttentionInput& in)
      : batch(in.qkv.size(0)),
        length(in.qkv.size(1)),
        groups(in.qkv.size(2)),
        heads(in.qkv.size(3) - 2),
        dim(in.qkv.size(4)) {}
  Shape out() const { return {batch, length, groups * heads, dim}; }
  Shape logsumexp() const { return {batch, groups * heads, length}; }
  /// Two products over D for each of a number of scores per head.
  double flops(double scores) const { return 4.0 * static_cast<double>(batch * groups * heads * dim) * scores; }
  /// Of the causal half of T x T scores.
  double forward_flops() const { return flops(static_cast<double>(length * length) / 2); }

  std::int64_t batch, length, groups, heads, dim;
};

Sizes checked_sizes(const AttentionInput& in) {
  require(in.qkv.shape().rank() == 5 && in.qkv.size(3) >= 3, "attention: qkv must be (B, T, G, R + 2, D), got ",
          in.qkv.shape().text());
  Sizes sizes(in);
  expect_tensor("attention: qkv", in.qkv, DType::f32, in.qkv.shape());
  require(in.dropout.probability >= 0 && in.dropout.probability < 1, "attention: a dropout of ", in.dropout.probability,
          " is not in [0, 1)");
  require(!in.dropout.active() || attention_dropout_threshold(in.dropout.probability) < 256, "attention: a dropout of ",
          in.dropout.probability, " keeps nothing at a resolution of 1 / 256");
  if (in.dropout.active()) expect_tensor("attention: samples", in.dropout.samples, DType::i64, {sizes.batch});
  require(in.scale > 0, "attention: scale must be positive, got ", in.scale);
  if (in.document_start.exists()) {
    expect_tensor("attention: document_start", in.document_start, DType::i32, {sizes.batch, sizes.length});
  }
  return sizes;
}

/// Every row must see itself, or its softmax is over nothing.
void check_contents(const AttentionInput& in, const Sizes& sizes) {
  if (!in.document_start.exists()) return;
  const std::int32_t* start = in.document_start.data<std::int32_t>();
  for (std::int64_t i = 0; i < sizes.batch * sizes.length; ++i) {
    require(start[i] >= 0 && start[i] <= i % sizes.length, "attention: document_start of position ", i % sizes.length,
            " is ", start[i]);
  }
}

std::int32_t dropout_threshold(const Dropout& dropout) {
  return static_cast<std::int32_t>(attention_dropout_threshold(dropout.probability));
}

/// Group g of sequence b.
cpu::AttentionGroup group_of(const AttentionInput& in, const Sizes& sizes, std::int64_t b, std::int64_t g) {
  cpu::AttentionGroup group;
  group.queries = group.keys = sizes.length;
  group.heads = sizes.heads;
  group.dim = sizes.dim;
  group.scale = in.scale;
  std::int64_t group_size = (sizes.heads + 2) * sizes.dim;
  group.q_stride = group.kv_stride = sizes.groups * group_size;
  group.q = in.qkv.data<float>() + b * sizes.length * group.q_stride + g * group_size;
  group.k = group.q + sizes.heads * sizes.dim;
  group.v = group.k + sizes.dim;
  if (in.document_start.exists()) group.document_start = in.document_start.data<std::int32_t>() + b * sizes.length;
  if (in.dropout.active()) {
    std::int32_t threshold = dropout_threshold(in.dropout);
    group.dropout = {.active = threshold > 0,
                     .key = in.dropout.key,
                     .sample = static_cast<std::uint64_t>(in.dropout.samples.data<std::int64_t>()[b]),
                     .head = static_cast<std::uint64_t>(in.first_head + g * sizes.heads),
                     .row_tiles = static_cast<std::uint64_t>((sizes.length + 15) / 16),
                     .column_tiles = static_cast<std::uint64_t>((sizes.length + 31) / 32),
                     .threshold = threshold,
                     .scale = 256.0f / static_cast<float>(256 - threshold)};
  }
  return group;
}

/// Stores the new keys and values of group g of sequence b, and points the group at all that the cache then holds.
void append_to_cache(cpu::AttentionGroup& group, const KvCache& cache, std::int64_t b, std::int64_t g) {
  std::int64_t held = cache.lengths.data<std::int32_t>()[b], row = cache.keys.size(2) * group.dim;
  std::int64_t first = b * cache.keys.size(1) * row + g * group.dim;
  float* keys = cache.keys.data<float>() + first;
  float* values = cache.values.data<float>() + first;
  for (std::int64_t t = 0; t < group.queries; ++t) {
    std::copy_n(group.k + t * group.kv_stride, group.dim, keys + (held + t) * row);
    std::copy_n(group.v + t * group.kv_stride, group.dim, values + (held + t) * row);
  }
  group.k = keys;
  group.v = values;
  group.kv_stride = row;
  group.keys = held + group.queries;
}

/// Calls work(b, g, area) for every group of every sequence; area is the thread's own part of `areas` (threads,
/// floats).
template <class Work>
void for_groups(const Stream& stream, const Sizes& sizes, std::int64_t keys, const Tensor& areas, const Work& work) {
  float* base = areas.data<float>();
  std::int64_t area = areas.size(1);
  std::int64_t items = sizes.batch * sizes.groups;
  parallel_for(stream.threads(), items, items * sizes.heads * sizes.length * keys * sizes.dim, [&](std::int64_t item) {
    work(item / sizes.groups, item % sizes.groups, base + area * omp_get_thread_num());
  });
}

}  // namespace

void attention_forward(Stream& stream, Arena& scratch, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  Sizes sizes = checked_sizes(in);
  expect_tensor("attention: out", out, DType::f32, sizes.out());
  expect_tensor("attention: logsumexp", logsumexp, DType::f32, sizes.logsumexp());
  Arena::Mark mark(scratch);
  Tensor areas = scratch.make(DType::f32, {stream.threads(), cpu::attention_forward_work(sizes.length, sizes.dim)});
  stream.count(sizes.forward_flops(), static_cast<double>(in.qkv.bytes() + out.bytes() + logsumexp.bytes()));
  if (stream.is_meta()) return;
  check_contents(in, sizes);

  for_groups(stream, sizes, sizes.length, areas, [&](std::int64_t b, std::int64_t g, float* area) {
    std::int64_t head = g * sizes.heads, stride = sizes.groups * sizes.heads * sizes.dim;
    cpu::AttentionForward call;
    call.group = group_of(in, sizes, b, g);
    call.out_stride = stride;
    call.out = out.data<float>() + b * sizes.length * stride + head * sizes.dim;
    call.logsumexp = logsumexp.data<float>() + (b * sizes.groups * sizes.heads + head) * sizes.length;
    cpu::attention_forward(call, area);
  });
}

void attention_backward(Stream& stream, Arena& scratch, Tensor dqkv, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in) {
  Sizes sizes = checked_sizes(in);
  expect_tensor("attention: dqkv", dqkv, DType::f32, in.qkv.shape());
  expect_tensor("attention: dout", dout, DType::f32, sizes.out());
  expect_tensor("attention: out", out, DType::f32, sizes.out());
  expect_tensor("attention: logsumexp", logsumexp, DType::f32, sizes.logsumexp());
  Arena::Mark mark(scratch);
  Tensor areas = scratch.make(DType::f32, {stream.threads(), cpu::attention_backward_work(sizes.length, sizes.dim)});
  stream.count(2.5 * sizes.forward_flops(),
               static_cast<double>(2 * in.qkv.bytes() + 2 * out.bytes() + logsumexp.bytes()));
  if (stream.is_meta()) return;
  check_contents(in, sizes);

  for_groups(stream, sizes, sizes.length, areas, [&](std::int64_t b, std::int64_t g, float* area) {
    std::int64_t head = g * sizes.heads, stride = sizes.groups * sizes.heads * sizes.dim;
    std::int64_t in_out = b * sizes.length * stride + head * sizes.dim;
    cpu::AttentionBackward call;
    call.group = group_of(in, sizes, b, g);
    call.out_stride = stride;
    call.dout = dout.data<float>() + in_out;
    call.out = out.data<float>() + in_out;
    call.logsumexp = logsumexp.data<float>() + (b * sizes.groups * sizes.heads + head) * sizes.length;
    call.dq = dqkv.data<float>() + (call.group.q - in.qkv.data<float>());
    call.dk = call.dq + sizes.heads * sizes.dim;
    call.dv = call.dk + sizes.dim;
    cpu::attention_backward(call, area);
  });
}

void attention_cached(Stream& stream, Arena& scratch, Tensor out, const AttentionInput& in, const KvCache& cache) {
  Sizes sizes = checked_sizes(in);
  require(!in.document_start.exists() && !in.dropout.active(),
          "attention: a cache goes with neither documents nor dropout");
  expect_tensor("attention: out", out, DType::f32, sizes.out());
  require(cache.keys.shape().rank() == 4, "attention: cached keys must be (B, S, G, D), got ",
          cache.keys.shape().text());
  std::int64_t capacity = cache.keys.size(1);
  expect_tensor("attention: cached keys", cache.keys, DType::f32, {sizes.batch, capacity, sizes.groups, sizes.dim});
  expect_tensor("attention: cached values", cache.values, DType::f32, {sizes.batch, capacity, sizes.groups, sizes.dim});
  expect_tensor("attention: cache lengths", cache.lengths, DType::i32, {sizes.batch});
  require(sizes.length <= capacity, "attention: the cache holds ", capacity, " positions, ", sizes.length, " are new");
  Arena::Mark mark(scratch);
  bool decode = sizes.length == 1;
  Tensor areas =
      scratch.make(DType::f32, {stream.threads(), decode ? cpu::attention_decode_work(capacity, sizes.heads)
                                                         : cpu::attention_forward_work(capacity, sizes.dim)});
  const std::int64_t pairs = sizes.length * capacity - sizes.length * (sizes.length - 1) / 2;
  stream.count(sizes.flops(static_cast<double>(pairs)),
               static_cast<double>(in.qkv.bytes() + out.bytes() + cache.keys.bytes() + cache.values.bytes()));
  if (stream.is_meta()) return;
  const std::int32_t* lengths = cache.lengths.data<std::int32_t>();
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    require(lengths[b] >= 0 && lengths[b] + sizes.length <= capacity, "attention: the cache is full: sequence ", b,
            " holds ", lengths[b], " of ", capacity, " positions, ", sizes.length, " are new");
  }

  for_groups(stream, sizes, capacity, areas, [&](std::int64_t b, std::int64_t g, float* area) {
    std::int64_t stride = sizes.groups * sizes.heads * sizes.dim;
    cpu::AttentionForward call;
    call.group = group_of(in, sizes, b, g);
    call.out_stride = stride;
    call.out = out.data<float>() + b * sizes.length * stride + g * sizes.heads * sizes.dim;
    append_to_cache(call.group, cache, b, g);
    decode ? cpu::attention_decode(call, area) : cpu::attention_forward(call, area);
  });
}

}  // namespace mtl
