// Attention on the cpu: one thread takes one key-value group of one sequence (attention_cpu.h).
#include <omp.h>

#include <algorithm>

#include "kernels/attention_cpu.h"
#include "kernels/cpu.h"

namespace mtl::cpu {

namespace {

/// Every row must see itself, or its softmax is over nothing.
void check_contents(const AttentionInput& in, const AttentionSizes& sizes) {
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
AttentionGroup group_of(const AttentionInput& in, const AttentionSizes& sizes, std::int64_t b, std::int64_t g) {
  AttentionGroup group;
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
                     .sample = static_cast<std::uint64_t>(in.rows.samples.data<std::int64_t>()[b]),
                     .head = static_cast<std::uint64_t>(in.first_head + g * sizes.heads),
                     .row_tiles = static_cast<std::uint64_t>((sizes.length + 15) / 16),
                     .column_tiles = static_cast<std::uint64_t>((sizes.length + 31) / 32),
                     .threshold = threshold,
                     .scale = 256.0f / static_cast<float>(256 - threshold)};
  }
  return group;
}

/// Stores the new keys and values of group g of sequence b, and points the group at all that the cache then holds.
void append_to_cache(AttentionGroup& group, const KvCache& cache, std::int64_t b, std::int64_t g) {
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

/// Bytes of one work area for each thread.
std::size_t work_bytes(const Stream& stream, std::int64_t floats) {
  return static_cast<std::size_t>(stream.threads() * floats) * sizeof(float);
}

/// Calls body(b, g, area) for every group of every sequence; area is the thread's own part of `work`.
template <class Body>
void for_groups(const Stream& stream, const AttentionSizes& sizes, std::int64_t keys, const Tensor& work,
                const Body& body) {
  float* base = work_as<float>(work);
  std::int64_t area = work.numel() / static_cast<std::int64_t>(sizeof(float)) / stream.threads();
  std::int64_t items = sizes.batch * sizes.groups;
  parallel_for(stream.threads(), items, items * sizes.heads * sizes.length * keys * sizes.dim, [&](std::int64_t item) {
    body(item / sizes.groups, item % sizes.groups, base + area * omp_get_thread_num());
  });
}

}  // namespace

std::size_t attention_forward_work(const Stream& stream, const AttentionSizes& sizes) {
  return work_bytes(stream, forward_group_work(sizes.length, sizes.dim));
}

std::size_t attention_backward_work(const Stream& stream, const AttentionSizes& sizes) {
  return work_bytes(stream, backward_group_work(sizes.length, sizes.dim));
}

std::size_t attention_cached_work(const Stream& stream, const AttentionSizes& sizes, std::int64_t capacity) {
  return work_bytes(
      stream, sizes.length == 1 ? decode_group_work(capacity, sizes.heads) : forward_group_work(capacity, sizes.dim));
}

void attention_forward(Stream& stream, Tensor work, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  check_contents(in, sizes);
  for_groups(stream, sizes, sizes.length, work, [&](std::int64_t b, std::int64_t g, float* area) {
    std::int64_t head = g * sizes.heads, stride = sizes.groups * sizes.heads * sizes.dim;
    AttentionForward call;
    call.group = group_of(in, sizes, b, g);
    call.out_stride = stride;
    call.out = out.data<float>() + b * sizes.length * stride + head * sizes.dim;
    call.logsumexp = logsumexp.data<float>() + (b * sizes.groups * sizes.heads + head) * sizes.length;
    forward_group(call, area);
  });
}

void attention_backward(Stream& stream, Tensor work, Tensor dqkv, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  check_contents(in, sizes);
  for_groups(stream, sizes, sizes.length, work, [&](std::int64_t b, std::int64_t g, float* area) {
    std::int64_t head = g * sizes.heads, stride = sizes.groups * sizes.heads * sizes.dim;
    std::int64_t in_out = b * sizes.length * stride + head * sizes.dim;
    AttentionBackward call;
    call.group = group_of(in, sizes, b, g);
    call.out_stride = stride;
    call.dout = dout.data<float>() + in_out;
    call.out = out.data<float>() + in_out;
    call.logsumexp = logsumexp.data<float>() + (b * sizes.groups * sizes.heads + head) * sizes.length;
    call.dq = dqkv.data<float>() + (call.group.q - in.qkv.data<float>());
    call.dk = call.dq + sizes.heads * sizes.dim;
    call.dv = call.dk + sizes.dim;
    backward_group(call, area);
  });
}

void attention_cached(Stream& stream, Tensor work, Tensor out, const AttentionInput& in, const KvCache& cache) {
  const AttentionSizes sizes = in.sizes();
  const std::int64_t capacity = cache.keys.size(1);
  const bool decode = sizes.length == 1;
  const std::int32_t* lengths = cache.lengths.data<std::int32_t>();
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    require(lengths[b] >= 0 && lengths[b] + sizes.length <= capacity, "attention: the cache is full: sequence ", b,
            " holds ", lengths[b], " of ", capacity, " positions, ", sizes.length, " are new");
  }
  for_groups(stream, sizes, capacity, work, [&](std::int64_t b, std::int64_t g, float* area) {
    std::int64_t stride = sizes.groups * sizes.heads * sizes.dim;
    AttentionForward call;
    call.group = group_of(in, sizes, b, g);
    call.out_stride = stride;
    call.out = out.data<float>() + b * sizes.length * stride + g * sizes.heads * sizes.dim;
    append_to_cache(call.group, cache, b, g);
    decode ? decode_group(call, area) : forward_group(call, area);
  });
}

}  // namespace mtl::cpu
