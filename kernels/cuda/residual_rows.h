// A norm's input rows, for residual_cuda.cu, layernorm_cuda.cu and rmsnorm_cuda.cu. The rows are either already in
// memory or still to be computed as residual stream + branch. In that case, the first pass over a row computes the sum
// and writes it to memory.
#pragma once

#include "kernels/cuda/dropout.h"
#include "kernels/cuda/rows.h"
#include "kernels/residual.h"

namespace mtl::cuda {

/// Rows of `width` elements.
template <class T>
struct Rows {
  using Element = std::remove_const_t<T>;
  using Kinds = NarrowToWide;
  T* data;
  int width;

  __device__ T* at(std::int64_t row) const { return data + row * width; }
};

/// Rows that are the first `count` of every `group`, as in a slice of fewer than 2^32 heads.
template <class T>
struct HeadRows {
  using Element = std::remove_const_t<T>;
  using Kinds = OfHeads;
  T* data;
  int width;
  unsigned count, group;

  __device__ T* at(std::int64_t row) const {
    const auto number = static_cast<unsigned>(row), before = number / count;
    return data + (std::int64_t{before} * group + (number - before * count)) * width;
  }
};

/// Rows of out = residual + dropout(branch + bias). The residual stream has dtype S, the branch dtype T. Dropout is off
/// unless `drops`.
template <class S, class T, bool drops>
struct SummedRows {
  using Element = S;
  using Kinds = NarrowToWide;
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

/// Makes the first pass over a row: keeps it. Later passes get the elements from `kept`, or from rows.at(row).
template <class Kind, class X>
__device__ void keep_row(KeptRow<Kind, typename X::Element>& kept, const X& rows, std::int64_t row,
                         const Team<Kind>& team) {
  const auto* x = rows.at(row);
  team.over_row([&](int k, int i, bool) { kept.keep(k, x + i); });
}

/// Like the function above, but computes and writes the row first. Keeps the elements as stored, that is, rounded to S.
template <class Kind, class S, class T, bool drops>
__device__ void keep_row(KeptRow<Kind, S>& kept, const SummedRows<S, T, drops>& rows, std::int64_t row,
                         const Team<Kind>& team) {
  constexpr int n = Kind::n;
  const std::int64_t begin = row * rows.width;
  const S* residual = rows.residual + begin;
  const T* branch = rows.branch + begin;
  KeptRow<Kind, T> x;
  team.over_row([&](int k, int i, bool) {
    kept.keep(k, residual + i);
    x.keep(k, branch + i);
  });
  const RowMask mask(rows.hidden, drops ? row : 0);
  team.over_row([&](int k, int i, bool holds) {
    const StoredPack<S, n> skip = kept.get(k, residual + i);
    const StoredPack<T, n> in = x.get(k, branch + i);
    StoredPack<T, n> bias{};
    if (rows.bias != nullptr) bias = load_stored<n>(rows.bias + i);
    Pack<n> sum, factors;
    if constexpr (drops) factors = mask.template factors<n>(i);
    for (int j = 0; j < n; ++j) sum[j] = drops ? fmaf(factors[j], in[j] + bias[j], skip[j]) : in[j] + bias[j] + skip[j];
    const StoredPack<S, n> out = rounded<S>(sum);
    if (holds) store(rows.out + begin + i, out);
    if constexpr (Kind::packs > 0) kept.kept[k] = out;
  });
}

/// Calls body(rows) with the rows of a sum.
template <class S, class T, class Body>
void with_sum(const Tensor& x, const ResidualSum& sum, const Body& body) {
  if (sum.dropout.active())
    body(SummedRows<S, T, true>(x, sum));
  else
    body(SummedRows<S, T, false>(x, sum));
}
/// Calls body(rows). If `sum` exists, `rows` computes the sum, and keep_row() writes it to x. Otherwise `rows` reads
/// x.
template <class S, class T, class Body>
void with_rows(const Tensor& x, const ResidualSum& sum, const Body& body) {
  if (sum.exists())
    with_sum<S, T>(x, sum, body);
  else
    body(Rows<const S>{x.data<S>(), static_cast<int>(x.size(-1))});
}

}  // namespace mtl::cuda
