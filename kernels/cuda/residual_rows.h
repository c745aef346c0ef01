// A norm's input rows, for residual_cuda.cu, layernorm_cuda.cu and rmsnorm_cuda.cu. The rows are either already in
// memory or still to be computed as residual stream + branch. In that case, the first pass over a row computes the sum
// and writes it to memory.
#pragma once

#include "kernels/cuda/dropout.h"
#include "kernels/cuda/rows.h"
#include "kernels/residual.h"

namespace mtl::cuda {

/// Rows of `width` elements: all rows, or the first `count` of every `group`, as in a slice of fewer than 2^32 heads.
template <class T>
struct Rows {
  T* data;
  int width;
  unsigned count = 1, group = 1;

  __device__ T* at(std::int64_t row) const {
    if (count < group) {
      const auto number = static_cast<unsigned>(row), before = number / count;
      row = std::int64_t{before} * group + (number - before * count);
    }
    return data + row * width;
  }
};

/// Rows of out = residual + dropout(branch + bias). The residual stream has dtype S, the branch dtype T.
template <class S, class T>
struct SummedRows {
  S* out;
  const S* residual;
  const T *branch, *bias;  // bias is null if absent
  HiddenMask hidden;
  int width;

  SummedRows(const Tensor& result, const ResidualSum& sum)
      : out(result.data<S>()),
        residual(sum.residual.data<S>()),
        branch(sum.branch.data<T>()),
        bias(sum.bias.exists() ? sum.bias.data<T>() : nullptr),
        hidden(sum.dropout, sum.rows, result.size(-1)),
        width(static_cast<int>(result.size(-1))) {}
  __device__ S* at(std::int64_t row) const { return out + row * width; }
};

/// Makes the first pass over a row of `width` elements: keeps it. Later passes get the elements from `kept`, or from
/// rows.at(row).
template <int n, int packs, class X>
__device__ void keep_row(KeptRow<n, packs>& kept, const X& rows, std::int64_t row, int width, const Team& team) {
  const auto* x = rows.at(row);
  team.over_row<n, packs>(width, [&](int k, int i) { kept.keep(k, x + i); });
}

/// Like the function above, but computes and writes the row first. Keeps the elements as stored, that is, rounded to S.
template <int n, int packs, class S, class T>
__device__ void keep_row(KeptRow<n, packs>& kept, const SummedRows<S, T>& rows, std::int64_t row, int width,
                         const Team& team) {
  const RowMask mask(rows.hidden, width > 0 ? row : 0);
  const std::int64_t begin = row * rows.width;
  const S* residual = rows.residual + begin;
  const T* branch = rows.branch + begin;
  KeptRow<n, packs> x;
  team.over_row<n, packs>(width, [&](int k, int i) {
    kept.keep(k, residual + i);
    x.keep(k, branch + i);
  });
  team.over_row<n, packs>(width, [&](int k, int i) {
    const Pack<n> skip = kept.get(k, residual + i), in = x.get(k, branch + i);
    const Pack<n> shift = rows.bias == nullptr ? Pack<n>{} : load<n>(rows.bias + i), factors = mask.factors<n>(i);
    Pack<n> sum;
    for (int j = 0; j < n; ++j) sum[j] = to_float(from_float<S>(fmaf(factors[j], in[j] + shift[j], skip[j])));
    store(rows.out + begin + i, sum);
    if constexpr (packs > 0) kept.kept[k] = sum;
  });
}

/// Calls body(rows). If `sum` exists, `rows` computes the sum, and keep_row() writes it to x. Otherwise `rows` reads
/// x.
template <class S, class T, class Body>
void with_rows(const Tensor& x, const ResidualSum& sum, const Body& body) {
  if (sum.exists())
    body(SummedRows<S, T>(x, sum));
  else
    body(Rows<const S>{x.data<S>(), static_cast<int>(x.size(-1))});
}

}  // namespace mtl::cuda
