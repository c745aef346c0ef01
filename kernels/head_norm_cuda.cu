// Applies the kernels in kernels/cuda/rmsnorm_rows.h to heads. A team of threads shares a head (kernels/cuda/rows.h).
// Memory is read and written once:
//   forward   x and y                          2 B T G count D elements
//   backward  x, dy and dx                     3 B T G count D elements; the gradient of gamma in the same pass
// Predicted to be memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/rmsnorm_rows.h"

namespace mtl::cuda {

void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps) {
  const auto width = static_cast<int>(gamma.numel());
  with_float_type(gamma.dtype(), [&]<class T>(T) {
    const NormForward<false, HeadRows<T>, HeadRows<T>, T> operands{.y = HeadRows<T>(y),
                                                                   .x = HeadRows<T>(x),
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
  const std::int64_t rows = x.heads().numel();
  with_float_type(gamma.dtype(), [&]<class T>(T) {
    const RmsNormBackward<HeadRows<T>, HeadRows<T>, HeadRows<T>, T> operands{
        .dx = HeadRows<T>(dx),
        .skip = HeadRows<T>(dx),
        .wants_dx = true,
        .has_skip = false,
        .partials = dgamma.wanted() ? static_cast<float*>(work.raw()) : nullptr,
        .dy = HeadRows<T>(dy),
        .x = HeadRows<T>(x),
        .rstd = rstd.data<float>(),
        .gamma = gamma.data<T>(),
        .rows = rows,
        .width = width};
    with_pack_size(width, {dx.tensor, dy.tensor, x.tensor, gamma},
                   [&]<int n>(std::integral_constant<int, n>) { rmsnorm_rows_backward<n>(stream, operands); });
  });
  if (dgamma.wanted()) rmsnorm_add_dgamma(stream, dgamma, work, rows, width);
}

}  // namespace mtl::cuda
