// Attention's forward pass for all dtypes and shapes, decoding, and the KV cache. attention_cuda_tiles.cu and
// attention_cuda_hopper.cu have the fast variants. Computes out = softmax(scale q k^T) v with one warp per query and an
// online softmax in fp32, reading keys and values through the hardware caches. Decoding splits a query's keys into
// pieces, with one warp per piece, and a second kernel merges their results. The pieces, and therefore the results, do
// not depend on the batch size.
//
// Predicted: decoding is bound by reading keys and values, once for each head in a group. All other calls are bound by
// the fp32 units, with 2 B H Tq Tk D multiply-adds. Appending to the KV cache reads and writes each element once.
#include <cmath>

#include "kernels/attention_cuda.h"
#include "kernels/attention_variant.h"
#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/flat.h"

namespace mtl::cuda {

namespace {

template <class T>
struct Forward : ForwardOperands<T> {
  float* partials;  // (rows, pieces, 2 + D): maximum, sum, unnormalized result; null for one piece
  int pieces;
};

/// The state of an online softmax over some of a query's keys.
struct Softmax {
  float max = -INFINITY, sum = 0;
  /// Adds scores[0, count), count > 0, and replaces them with exp(score - max). `lane_max` is the maximum of this
  /// lane's scores. Returns exp(old max - max), the factor for all earlier sums.
  __device__ float add(float* scores, int count, float lane_max) {
    const float old_max = max;
    max = fmaxf(warp_max(lane_max), old_max);
    float more = 0;
    over_lanes(count, [&](int j) {
      scores[j] = expf(scores[j] - max);
      more += scores[j];
    });
    const float factor = expf(old_max - max);
    sum = sum * factor + warp_sum(more);
    return factor;
  }
};

/// Computes a query's attention over the keys in `range`: out (D) = sum of exp(score - max) v, before division by the
/// sum. q (D), `out` and scores (kRowChunk) are in the warp's shared memory.
template <int n, class T>
__device__ Softmax attend(const Forward<T>& f, const QueryRow& row, KeyRange range, float* q, float* out,
                          float* scores) {
  const AttentionShape& shape = f.shape;
  const int dim = shape.dim, head = row.g * shape.heads + row.h;
  stage_row(q, f.q.at(row.b, row.g, row.h, row.t), dim, shape.scale);
  over_lanes(dim, [&](int d) { out[d] = 0; });
  Softmax softmax;
  for (int begin = range.first; begin < range.end; begin += kRowChunk) {
    const int count = range.end - begin < kRowChunk ? range.end - begin : kRowChunk;
    __syncwarp();  // q is written, and the previous scores have been read
    float lane_max = -INFINITY;
    over_lanes(count, [&](int j) {
      scores[j] = dot_row<n>(q, f.k.at(row.b, row.g, 0, begin + j), dim);
      lane_max = fmaxf(lane_max, scores[j]);
    });
    const float factor = softmax.add(scores, count, lane_max);
    if (shape.dropout.active)
      over_lanes(count, [&](int j) { scores[j] *= shape.dropout_factor(row.b, head, row.t, begin + j); });
    over_lanes(dim, [&](int d) { out[d] *= factor; });
    __syncwarp();
    add_rows(out, scores, count, dim, [&](int j) { return f.v.at(row.b, row.g, 0, begin + j); });
  }
  return softmax;
}

template <int n, class T>
__global__ void attend_rows(const __grid_constant__ Forward<T> f) {
  const AttentionShape& shape = f.shape;
  const std::int64_t item = item_of_warp(), number = item / f.pieces;
  if (number >= shape.rows()) return;
  const QueryRow row(shape, number);
  const int dim = shape.dim, piece = static_cast<int>(item % f.pieces);
  KeyRange range = shape.visible(row.b, row.t);
  if (f.partials != nullptr) {
    const std::int64_t first = range.first + std::int64_t{piece} * kRowChunk;
    range.first = first < range.end ? static_cast<int>(first) : range.end;
    if (range.end - range.first > kRowChunk) range.end = range.first + kRowChunk;
  }
  float* q = memory_of_warp(2 * dim + kRowChunk);
  float *sums = q + dim, *scores = sums + dim;
  const Softmax softmax = attend<n>(f, row, range, q, sums, scores);
  if (f.partials != nullptr) {
    float* partial = f.partials + item * (dim + 2);
    if (lane() == 0) {
      partial[0] = softmax.max;
      partial[1] = softmax.sum;
    }
    over_lanes(dim, [&](int d) { partial[2 + d] = sums[d]; });
    return;
  }
  const float factor = softmax.sum > 0 ? 1 / softmax.sum : 0;
  T* out = f.out.at(row.b, row.g, row.h, row.t);
  over_lanes(dim, [&](int d) { out[d] = from_float<T>(sums[d] * factor); });
  if (f.logsumexp != nullptr && lane() == 0) f.logsumexp[number] = softmax.max + logf(softmax.sum);
}

/// out = sum of weighted partial outputs / sum of weighted partial sums. A piece's weight is exp(piece's max - max).
template <class T>
__global__ void merge_pieces(const __grid_constant__ Forward<T> f) {
  const std::int64_t number = item_of_warp();
  if (number >= f.shape.rows()) return;
  const QueryRow row(f.shape, number);
  const int dim = f.shape.dim;
  const float* partials = f.partials + number * f.pieces * (dim + 2);
  float lane_max = -INFINITY, lane_sum = 0;
  over_lanes(f.pieces, [&](int i) { lane_max = fmaxf(lane_max, partials[std::int64_t{i} * (dim + 2)]); });
  const float max = warp_max(lane_max);
  const auto weight = [&](int i) { return expf(partials[std::int64_t{i} * (dim + 2)] - max); };
  const bool any = max > -INFINITY;
  if (any) over_lanes(f.pieces, [&](int i) { lane_sum += weight(i) * partials[std::int64_t{i} * (dim + 2) + 1]; });
  const float factor = any ? 1 / warp_sum(lane_sum) : 0;
  T* out = f.out.at(row.b, row.g, row.h, row.t);
  over_lanes(dim, [&](int d) {
    float sum = 0;
    for (int i = 0; i < f.pieces && any; ++i) sum += weight(i) * partials[std::int64_t{i} * (dim + 2) + 2 + d];
    out[d] = from_float<T>(sum * factor);
  });
}

/// Returns how many pieces a query's keys are split into: one unless the call decodes.
int pieces_of(const AttentionInput& in, const Tensor& logsumexp) {
  return in.decodes(logsumexp) ? static_cast<int>((in.keys_in_reach() + kRowChunk - 1) / kRowChunk) : 1;
}

template <int n, class T>
__global__ void append_rows(Heads<T> cache, Heads<T> added, const std::int32_t* lengths, int capacity, int positions,
                            int groups, std::int64_t count) {
  const int packs = cache.dim / n;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    const int d = static_cast<int>(i % packs) * n;
    const std::int64_t row = i / packs;
    const int g = static_cast<int>(row % groups), b = static_cast<int>(row / groups / positions);
    const std::int64_t t = row / groups % positions, at = lengths[b] + t;
    if (at >= 0 && at < capacity) store(cache.at(b, g, 0, at) + d, load<n>(added.at(b, g, 0, t) + d));
  }
}

}  // namespace

std::size_t attention_forward_work(const Stream&, Tensor logsumexp, const AttentionInput& in) {
  if (attention_suits_cudnn(in)) return cudnn_work_bytes(in, logsumexp);
  const int pieces = pieces_of(in, logsumexp);
  const AttentionSizes s = in.sizes();
  return pieces == 1 ? 0
                     : static_cast<std::size_t>(s.batch * s.groups * s.heads * s.queries * pieces * (s.dim + 2)) *
                           sizeof(float);
}

namespace {

void attention_forward_simple(Stream& stream, const Tensor& work, const Tensor& out, const Tensor& logsumexp,
                              const AttentionInput& in) {
  const int pieces = pieces_of(in, logsumexp);
  const AttentionSizes sizes = in.sizes();
  with_float_type(out.dtype(), [&]<class T>(T) {
    const Forward<T> f{{in, out, logsumexp}, pieces == 1 ? nullptr : static_cast<float*>(work.raw()), pieces};
    const RowLaunch rows(f.shape.rows() * pieces, 2 * sizes.dim + kRowChunk);
    with_pack_size(sizes.dim, {in.qkv.k.tensor},
                   [&]<int n>(std::integral_constant<int, n>) { launch(stream, attend_rows<n, T>, rows.shape(), f); });
    if (pieces > 1) launch(stream, merge_pieces<T>, RowLaunch(f.shape.rows(), 1).shape(), f);
  });
}

}  // namespace

void attention_forward(Stream& stream, Tensor work, Tensor out, Tensor logsumexp, const AttentionInput& in) {
  const auto compute = [&](AttentionVariant variant) {
    switch (variant) {
      case AttentionVariant::simple:
        return attention_forward_simple(stream, work, out, logsumexp, in);
      case AttentionVariant::tiles:
        return attention_forward_tiles(stream, out, logsumexp, in);
      case AttentionVariant::hopper:
        return attention_forward_hopper(stream, out, logsumexp, in);
      case AttentionVariant::cudnn:
        return attention_forward_cudnn(stream, work, out, logsumexp, in);
    }
  };
  auto variants = allowed_forward_variants(stream.attention_backend(),
                                           attention_forward_variants(in, out, logsumexp, compute_capability()));
  if (variants.size() > 1 && variants.back() == AttentionVariant::cudnn && !has_cudnn()) variants.pop_back();
  if (variants.size() == 1) return compute(variants[0]);
  std::vector<Tensor> results{out};
  if (logsumexp.exists()) results.push_back(logsumexp);
  compute(choose_variant(stream, attention_forward_key(in), variants, compute, results));
}

void append_to_cache(Stream& stream, const KvCache& cache, const HeadSlice& k, const HeadSlice& v) {
  const int capacity = static_cast<int>(cache.keys.size(1)), groups = static_cast<int>(cache.keys.size(2));
  const std::int64_t positions = k.tensor.size(1), dim = cache.keys.size(4);
  with_float_type(cache.keys.dtype(), [&]<class T>(T) {
    with_pack_size(dim, {cache.keys, cache.values, k.tensor, v.tensor}, [&]<int n>(std::integral_constant<int, n>) {
      const std::int64_t packs = cache.keys.size(0) * positions * groups * dim / n;
      for (const auto& [to, from] : {std::pair(cache.keys, k), std::pair(cache.values, v)})
        launch(stream, append_rows<n, T>, flat_shape(packs), Heads<T>(HeadSlice{to}), Heads<T>(from),
               cache.lengths.data<std::int32_t>(), capacity, static_cast<int>(positions), groups, packs);
    });
  });
}

}  // namespace mtl::cuda
