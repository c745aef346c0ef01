// Applies the kernels in kernels/cuda/norm_rows.h to heads.
// Memory is read and written once:
//   forward   x and y                          2 B T G count D elements
//   backward  x, dy and dx                     3 B T G count D elements; the gradient of gamma in the same pass
// Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/norm_rows.h"
#include "kernels/head_slice.h"

namespace mtl::cuda {

namespace {

/// The heads in a slice, in (B, T, G, count) order.
template <class T>
HeadRows<T> rows_of(const HeadSlice& slice) {
  const auto width = static_cast<int>(slice.tensor.size(4));
  return {slice.tensor.data<std::remove_const_t<T>>() + slice.first * width, width, static_cast<unsigned>(slice.count),
          static_cast<unsigned>(slice.tensor.size(3))};
}

}  // namespace

void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps) {
  const auto width = static_cast<int>(gamma.numel());
  with_float_type(gamma.dtype(), [&]<class T>(T) {
    const NormForward<false, HeadRows<T>, HeadRows<const T>, T> operands{
        .y = rows_of<T>(y),
        .x = rows_of<const T>(x),
        .mean = nullptr,
        .rstd = rstd.exists() ? rstd.data<float>() : nullptr,
        .gamma = gamma.data<T>(),
        .beta = nullptr,
        .rows = x.heads().numel(),
        .width = width,
        .eps = eps};
    norm_rows(stream, operands, {y.tensor, x.tensor, gamma});
  });
}

void head_norm_backward(Stream& stream, Tensor work, const HeadSlice& dx, const Grad& dgamma, const HeadSlice& dy,
                        const HeadSlice& x, Tensor rstd, Tensor gamma) {
  const auto width = static_cast<int>(gamma.numel());
  auto* partials = static_cast<float*>(work.raw());
  int blocks = 0;
  with_float_type(gamma.dtype(), [&]<class T>(T) {
    const NormBackward<1, HeadRows, T, T> operands{.dx = rows_of<T>(dx),
                                                   .skip = {},
                                                   .wants_dx = true,
                                                   .has_skip = false,
                                                   .partials = partials,
                                                   .dy = rows_of<const T>(dy),
                                                   .x = rows_of<const T>(x),
                                                   .mean = nullptr,
                                                   .rstd = rstd.data<float>(),
                                                   .gamma = gamma.data<T>(),
                                                   .rows = x.heads().numel(),
                                                   .width = width};
    blocks = norm_rows_backward(stream, operands, {dx.tensor, dy.tensor, x.tensor, gamma});
  });
  if (partials != nullptr) sum_partials(stream, {dgamma}, partials, blocks, width);
}

}  // namespace mtl::cuda
