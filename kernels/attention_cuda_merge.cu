// Merges partial results of attention, with a warp per query. Memory-bound: reads each result and part once, and writes
// each result once.
#include <cmath>

#include "kernels/attention.h"
#include "kernels/cuda.h"
#include "kernels/cuda/attention_rows.h"

namespace mtl::cuda {

namespace {

template <class T>
struct MergedRows {
  float *out, *logsumexp;
  const T* part;
  const float* part_logsumexp;
  std::int64_t rows, positions, heads;
  int dim;
};

template <class T>
__global__ void merge_rows(const __grid_constant__ MergedRows<T> f) {
  const std::int64_t row = item_of_warp();  // (b, t, h)
  if (row >= f.rows) return;
  const std::int64_t head = row % f.heads, t = row / f.heads % f.positions, b = row / f.heads / f.positions;
  const std::int64_t at = (b * f.heads + head) * f.positions + t;
  const float sum = f.logsumexp[at], more = f.part_logsumexp[at];
  if (more == -INFINITY) return;  // the query sees none of the part's keys
  const float most = fmaxf(sum, more), total = most + logf(expf(sum - most) + expf(more - most));
  const float own = expf(sum - total), other = expf(more - total);
  float* out = f.out + row * f.dim;
  const T* part = f.part + row * f.dim;
  over_lanes(f.dim, [&](int d) { out[d] = own * out[d] + other * to_float(part[d]); });
  __syncwarp();  // all lanes have read logsumexp
  if (lane() == 0) f.logsumexp[at] = total;
}

}  // namespace

void attention_merge(Stream& stream, Tensor out, Tensor logsumexp, Tensor part, Tensor part_logsumexp) {
  with_float_type(part.dtype(), [&]<class T>(T) {
    const MergedRows<T> f{.out = out.data<float>(),
                          .logsumexp = logsumexp.data<float>(),
                          .part = part.data<T>(),
                          .part_logsumexp = part_logsumexp.data<float>(),
                          .rows = out.row_count(),
                          .positions = out.size(1),
                          .heads = out.size(2),
                          .dim = static_cast<int>(out.size(3))};
    launch(stream, merge_rows<T>, RowLaunch(f.rows, 1).shape(), f);
  });
}

}  // namespace mtl::cuda
