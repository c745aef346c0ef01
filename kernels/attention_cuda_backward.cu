// Attention's backward pass for all dtypes and shapes, without atomics. attention_cuda_tiles_d*.cu and
// attention_cuda_hopper_backward.cu have the fast variants; kernels/attention.h has the equations. First, one warp per
// query writes dq. Then one warp per key sums dk and dv over the queries that see the key, one head at a time. Scores
// are computed twice. Predicted: bound by the fp32 units, 7 B H T^2 D / 2 multiply-adds.
#include "kernels/attention_cuda.h"
#include "kernels/attention_variant.h"
#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/tile_order.h"

namespace mtl::cuda {

namespace {

template <int n, class T>
__global__ void write_dq(const __grid_constant__ BackwardOperands<T> b) {
  const AttentionShape& shape = b.shape;
  const std::int64_t number = item_of_warp();
  if (number >= shape.rows()) return;
  const QueryRow row(shape, number);
  const int dim = shape.dim, head = row.g * shape.heads + row.h;
  float* q = memory_of_warp(3 * dim + kRowChunk);
  float *dout = q + dim, *sums = dout + dim, *dscores = sums + dim;
  const T* out = b.out.at(row.b, row.g, row.h, row.t);
  stage_row(q, b.q.at(row.b, row.g, row.h, row.t), dim, shape.scale);
  stage_row(dout, b.dout.at(row.b, row.g, row.h, row.t), dim);
  float product = 0;
  over_lanes(dim, [&](int d) {
    product += dout[d] * to_float(out[d]);
    sums[d] = 0;
  });
  const float delta = warp_sum(product), logsumexp = b.logsumexp[number];
  if (lane() == 0) b.delta[number] = delta;
  const KeyRange range = shape.visible(row.b, row.t);
  for (int begin = range.first; begin < range.end; begin += kRowChunk) {
    const int count = range.end - begin < kRowChunk ? range.end - begin : kRowChunk;
    __syncwarp();
    over_lanes(count, [&](int j) {
      const int s = begin + j;
      const float p = expf(dot_row<n>(q, b.k.at(row.b, row.g, 0, s), dim) - logsumexp);
      const float dp = dot_row<n>(dout, b.v.at(row.b, row.g, 0, s), dim);
      // softmax backward: dS = P * (dP - delta)
      dscores[j] = p * (dp * shape.dropout_factor(row.b, head, row.t, s) - delta);
    });
    __syncwarp();
    add_rows(sums, dscores, count, dim, [&](int j) { return b.k.at(row.b, row.g, 0, begin + j); });
  }
  T* dq = b.dq.at(row.b, row.g, row.h, row.t);
  over_lanes(dim, [&](int d) { dq[d] = from_float<T>(sums[d] * shape.scale); });
}

/// Shared memory for a warp that owns a key.
struct KeyMemory {
  float *k, *v, *dk, *dv, *probabilities, *dscores;
  static constexpr int floats(int dim) { return 4 * dim + 2 * kRowChunk; }
  __device__ explicit KeyMemory(int dim) {
    k = memory_of_warp(floats(dim));
    v = k + dim;
    dk = v + dim;
    dv = dk + dim;
    probabilities = dv + dim;
    dscores = probabilities + kRowChunk;
  }
};

/// Adds what head h's queries contribute to dk and dv of key s: dk += dS^T q, dv += dropout(P)^T dout.
template <int n, class T>
__device__ void add_head(const BackwardOperands<T>& b, const KeyMemory& memory, int sequence, int g, int h, int s) {
  const AttentionShape& shape = b.shape;
  const int head = g * shape.heads + h;
  const std::int64_t rows = (std::int64_t{sequence} * shape.groups * shape.heads + head) * shape.queries;
  const std::int64_t own = shape.key_position(s), length = std::int64_t{shape.queries} * shape.part.parts;
  const bool is_limited = shape.window > 0 && shape.window < length - own;
  const auto query_from = [&](std::int64_t position) {
    return static_cast<int>(shape.part.rows_before(position, shape.queries));
  };
  const int end = is_limited ? query_from(own + shape.window) : shape.queries;
  for (int begin = query_from(own); begin < end; begin += kRowChunk) {
    const int count = end - begin < kRowChunk ? end - begin : kRowChunk;
    __syncwarp();
    over_lanes(count, [&](int j) {
      const int t = begin + j;
      const KeyRange seen = shape.visible(sequence, t);
      memory.probabilities[j] = memory.dscores[j] = 0;
      if (s < seen.first || s >= seen.end) return;
      const float p = expf(dot_row<n>(memory.k, b.q.at(sequence, g, h, t), shape.dim) - b.logsumexp[rows + t]);
      const float factor = shape.dropout_factor(sequence, head, t, s);
      const float dp = dot_row<n>(memory.v, b.dout.at(sequence, g, h, t), shape.dim);
      memory.probabilities[j] = p * factor;
      memory.dscores[j] = p * (dp * factor - b.delta[rows + t]);
    });
    __syncwarp();
    add_rows(memory.dk, memory.dscores, count, shape.dim, [&](int j) { return b.q.at(sequence, g, h, begin + j); });
    add_rows(memory.dv, memory.probabilities, count, shape.dim,
             [&](int j) { return b.dout.at(sequence, g, h, begin + j); });
  }
}

template <int n, class T>
__global__ void write_dk_dv(const __grid_constant__ BackwardOperands<T> b) {
  const AttentionShape& shape = b.shape;
  const std::int64_t item = item_of_warp();
  if (item >= std::int64_t{shape.batch} * shape.groups * shape.keys) return;
  const int s = static_cast<int>(item % shape.keys), dim = shape.dim;
  const int g = static_cast<int>(item / shape.keys % shape.groups);
  const int sequence = static_cast<int>(item / shape.keys / shape.groups);
  const KeyMemory memory(dim);
  stage_row(memory.k, b.k.at(sequence, g, 0, s), dim, shape.scale);
  stage_row(memory.v, b.v.at(sequence, g, 0, s), dim);
  over_lanes(dim, [&](int d) { memory.dk[d] = memory.dv[d] = 0; });
  for (int h = 0; h < shape.heads; ++h) add_head<n>(b, memory, sequence, g, h, s);
  T *dk = b.dk.at(sequence, g, 0, s), *dv = b.dv.at(sequence, g, 0, s);
  over_lanes(dim, [&](int d) {
    dk[d] = from_float<T>(memory.dk[d] * shape.scale);
    dv[d] = from_float<T>(memory.dv[d]);
  });
}

}  // namespace

namespace {

/// Returns the number of elements in BackwardWork::partials.
std::int64_t count_partials(const AttentionInput& in) {
  const AttentionSizes s = in.sizes();
  const int parts = attention_suits_tiles(in) ? key_parts(s) : 1;
  return parts == 1 ? 0 : s.batch * s.groups * parts * s.keys * 2 * s.dim;
}

}  // namespace

BackwardWork::BackwardWork(const Tensor& memory, const AttentionInput& in)
    : partials(static_cast<float*>(memory.raw())), delta(partials + count_partials(in)) {}

std::size_t attention_backward_work(const Stream&, const AttentionInput& in) {
  const AttentionSizes s = in.sizes();
  return (count_partials(in) + s.batch * s.groups * s.heads * s.queries) * sizeof(float);
}

namespace {

void attention_backward_simple(Stream& stream, float* delta, const Qkv& grads, const Tensor& dout, const Tensor& out,
                               const Tensor& logsumexp, const AttentionInput& in) {
  const AttentionSizes sizes = in.sizes();
  with_float_type(out.dtype(), [&]<class T>(T) {
    const BackwardOperands<T> b(in, grads, dout, out, logsumexp, delta);
    const RowLaunch queries(b.shape.rows(), 3 * sizes.dim + kRowChunk);
    const RowLaunch keys(sizes.batch * sizes.groups * sizes.keys, KeyMemory::floats(static_cast<int>(sizes.dim)));
    with_pack_size(sizes.dim, {in.qkv.q.tensor, in.qkv.k.tensor, in.qkv.v.tensor, dout},
                   [&]<int n>(std::integral_constant<int, n>) {
                     launch(stream, write_dq<n, T>, queries.shape(), b);
                     launch(stream, write_dk_dv<n, T>, keys.shape(), b);
                   });
  });
}

}  // namespace

void attention_backward(Stream& stream, Tensor work, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in) {
  const BackwardWork parts(work, in);
  const auto compute_from = [&](const Tensor& gradient, AttentionVariant variant) {
    switch (variant) {
      case AttentionVariant::simple:
        return attention_backward_simple(stream, parts.delta, grads, gradient, out, logsumexp, in);
      case AttentionVariant::tiles:
        attention_dq_tiles(stream, parts, grads, gradient, out, logsumexp, in);
        return attention_dk_dv_tiles(stream, parts, grads, gradient, out, logsumexp, in);
      case AttentionVariant::hopper:
        return attention_backward_hopper(stream, parts, grads, gradient, out, logsumexp, in);
      case AttentionVariant::cudnn:
        break;  // has no backward
    }
  };
  const auto compute = [&](AttentionVariant variant) { compute_from(dout, variant); };
  const auto variants = allowed_backward_variants(
      stream.attention_backend(), attention_backward_variants(in, grads, dout, out, compute_capability()));
  if (variants.size() == 1) return compute(variants[0]);
  std::vector<Tensor> results;
  for (const HeadSlice* slice : {&grads.q, &grads.k, &grads.v})
    if (results.empty() || results.back().raw() != slice->tensor.raw()) results.push_back(slice->tensor);
  // Compare variants with `out` in place of dout, because dout is not finite while the loss scale is too large.
  const auto try_out = [&](AttentionVariant variant) { compute_from(out, variant); };
  compute(choose_variant(stream, attention_backward_key(in), variants, try_out, results));
}

}  // namespace mtl::cuda
