// RMSNorm where each row is a head, in (B, T, G, count) order.
#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/head_norm_cpu.cpp"
#include "kernels/rmsnorm_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Iterates over a slice's rows without a division per row.
template <class T>
class HeadCursor {
 public:
  HeadCursor(const HeadSlice& slice, std::int64_t row)
      : width_(slice.tensor.size(4)),
        count_(slice.count),
        gap_((slice.tensor.size(3) - slice.count) * width_),
        head_(row % count_),
        at_(slice.tensor.data<T>() + (row / count_ * slice.tensor.size(3) + slice.first + head_) * width_) {}

  T* at() const { return at_; }
  void advance() {
    at_ += width_;
    if (++head_ < count_) return;
    head_ = 0;
    at_ += gap_;
  }

 private:
  std::int64_t width_, count_, gap_, head_;
  T* at_;
};

void head_norm_forward_rows(const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps, Range rows) {
  with_float(gamma.dtype(), [&]<class T>(T) HWY_ATTR {
    const std::size_t width = gamma.numel();
    HeadCursor<T> from(x, rows.begin), to(y, rows.begin);
    for (std::int64_t row = rows.begin; row < rows.end; ++row, from.advance(), to.advance()) {
      const float r = rmsnorm_row(to.at(), from.at(), gamma.data<T>(), width, eps);
      if (rstd.exists()) rstd.data<float>()[row] = r;
    }
  });
}

/// Writes rows of dx. Unless `sums` (D) is null, also adds these rows' dgamma to `sums`.
void head_norm_backward_rows(const HeadSlice& dx, const HeadSlice& dy, const HeadSlice& x, Tensor rstd, Tensor gamma,
                             Range rows, float* sums) {
  with_float(gamma.dtype(), [&]<class T>(T) HWY_ATTR {
    const std::size_t width = gamma.numel();
    HeadCursor<T> to(dx, rows.begin), from(dy, rows.begin), input(x, rows.begin);
    for (std::int64_t n = rows.begin; n < rows.end; ++n, to.advance(), from.advance(), input.advance()) {
      const RmsNormRow<T, T> row{
          .x = input.at(), .dy = from.at(), .gamma = gamma.data<T>(), .width = width, .rstd = rstd.data<float>()[n]};
      const float mean_gx = rmsnorm_row_sums(row, sums);
      rmsnorm_row_dx<T, T>(row, mean_gx, to.at(), nullptr);
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
void head_norm_forward(Stream& stream, const HeadSlice& y, Tensor rstd, const HeadSlice& x, Tensor gamma, float eps) {
  parallel_rows(stream.threads(), x.heads().numel(), gamma.numel(), [&](Range rows) {
    MTL_DISPATCH(head_norm_forward_rows)(y, rstd, x, gamma, eps, rows);
  });
}

void head_norm_backward(Stream& stream, Tensor work, const HeadSlice& dx, const Grad& dgamma, const HeadSlice& dy,
                        const HeadSlice& x, Tensor rstd, Tensor gamma) {
  const std::int64_t heads = x.heads().numel(), width = gamma.numel();
  for_row_sum_blocks(stream, work, heads, width, heads * width, [&](Range rows, float* sums) {
    MTL_DISPATCH(head_norm_backward_rows)(dx, dy, x, rstd, gamma, rows, sums);
  });
  if (dgamma.wanted()) sum_partials(stream, dgamma, work_as<float>(work), row_sum_blocks(heads).number(), width);
}

}  // namespace mtl::cpu
#endif
