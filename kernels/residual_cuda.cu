// A warp for each row, one pass over memory each way:
//   forward   branch, residual and out      3 N C elements
//   backward  dout and dbranch              2 N C elements, or dout alone where dbranch is dout and dropout off;
//                                           dbias in the same pass
// The mask is drawn again in backward, never stored. Predicted: bound by memory.
#include "kernels/cuda.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/types.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

constexpr unsigned kRowsInBlock = 4;

unsigned blocks_of(std::int64_t rows) { return static_cast<unsigned>((rows + kRowsInBlock - 1) / kRowsInBlock); }

/// bias is null where it is left out.
template <int n, class S, class T>
__global__ void add_branch(S* out, const S* residual, const T* branch, const T* bias,
                           const __grid_constant__ HiddenMask hidden, std::int64_t rows, int width) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsInBlock + warp_in_block();
  if (row >= rows) return;
  const RowMask mask(hidden, row);
  const std::int64_t begin = row * width;
  over_row<n>(width, [&](int i) {
    const Pack<n> skip = load<n>(residual + begin + i), x = load<n>(branch + begin + i);
    const Pack<n> shift = bias == nullptr ? Pack<n>{} : load<n>(bias + i), factors = mask.factors<n>(i);
    Pack<n> sum;
    for (int j = 0; j < n; ++j) sum[j] = skip[j] + factors[j] * (x[j] + shift[j]);
    store(out + begin + i, sum);
  });
}

/// dbranch is null where it has its values already, partials where dbias is not wanted.
template <class S, class T>
struct Backward {
  T* dbranch;
  float* partials;
  const S* dout;
  HiddenMask hidden;
  std::int64_t rows;
  int width;
};

/// sums (C): adds a row of dbranch to this warp's. A lane always has the same columns.
template <int n, class S, class T>
__device__ void pass_row(float* sums, const Backward<S, T>& b, std::int64_t row) {
  constexpr int kAhead = 4, kStride = static_cast<int>(kWarp) * n;  // few warps share a multiprocessor: loads run ahead
  const RowMask mask(b.hidden, row);
  const std::int64_t begin = row * b.width;
  for (int first = static_cast<int>(lane()) * n; first < b.width; first += kAhead * kStride) {
    Pack<n> dout[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (first + k * kStride < b.width) dout[k] = load<n>(b.dout + begin + first + k * kStride);
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int i = first + k * kStride;
      if (i >= b.width) break;
      const Pack<n> factors = mask.factors<n>(i);
      for (int j = 0; j < n; ++j) dout[k][j] *= factors[j];
      if (b.dbranch != nullptr) store(b.dbranch + begin + i, dout[k]);
      if (b.partials == nullptr) continue;
      Pack<n> sum = load<n>(sums + i);
      for (int j = 0; j < n; ++j) sum[j] += dout[k][j];
      store(sums + i, sum);
    }
  }
}

template <int n, class S, class T>
__global__ void backward_rows(const __grid_constant__ Backward<S, T> b) {
  const int sums = b.partials == nullptr ? 0 : b.width, warps = static_cast<int>(blockDim.x / kWarp);
  float* mine = shared_memory<float>() + static_cast<int>(warp_in_block()) * sums;
  over_row<1>(sums, [&](int i) { mine[i] = 0; });
  __syncwarp();
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + warp_in_block(); row < b.rows;
       row += std::int64_t{gridDim.x} * warps)
    pass_row<n>(mine, b, row);
  if (sums > 0) write_block_sums(b.partials, shared_memory<float>(), sums);
}

}  // namespace

void residual_forward(Stream& stream, Tensor out, Tensor residual, Tensor branch, Tensor bias, const Dropout& dropout,
                      const RowMap& rows) {
  const std::int64_t count = out.row_count(), width = out.size(-1);
  with_stream_types(out.dtype(), branch.dtype(), [&]<class S, class T>(S, T) {
    with_pack_size(width, {out, residual, branch, bias}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, add_branch<n, S, T>, {blocks_of(count), kRowsInBlock * kWarp}, out.data<S>(), residual.data<S>(),
             branch.data<T>(), bias.exists() ? bias.data<T>() : nullptr, HiddenMask(dropout, rows, width), count,
             static_cast<int>(width));
    });
  });
}

void residual_backward(Stream& stream, Tensor work, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  const bool writes = dropout.active() || dbranch.raw() != dout.raw();
  if (!writes && !dbias.wanted()) return;
  const std::int64_t count = dout.row_count(), width = dout.size(-1);
  const RowSumShape sums(count, width);
  LaunchShape shape{blocks_of(count), kRowsInBlock * kWarp};
  if (dbias.wanted()) shape = {sums.blocks, sums.warps * kWarp, sums.shared_bytes};
  with_stream_types(dout.dtype(), dbranch.dtype(), [&]<class S, class T>(S, T) {
    const Backward<S, T> operands{writes ? dbranch.data<T>() : nullptr,
                                  dbias.wanted() ? static_cast<float*>(work.raw()) : nullptr,
                                  dout.data<S>(),
                                  HiddenMask(dropout, rows, width),
                                  count,
                                  static_cast<int>(width)};
    with_pack_size(width, {dbranch, dout}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, backward_rows<n, S, T>, shape, operands);
    });
  });
  if (dbias.wanted()) sum_blocks(stream, dbias, work, count, width, 0);
}

std::size_t residual_backward_work(const Stream&, std::int64_t rows, std::int64_t width) {
  return row_sums_bytes(rows, width);
}

}  // namespace mtl::cuda
