// Forward and backward each make one pass over memory. The mask is never stored: backward draws it again.
#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/residual_cpu.cpp"
#include "kernels/dropout_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// The residual stream has dtype S, the branch T.
void residual_forward_rows(Tensor out, const ResidualSum& sum, Range rows) {
  with_stream(out.dtype(), sum.branch.dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::int64_t width = out.size(-1);
    const HiddenMask mask(sum.dropout, sum.rows, width);
    const T* bias = sum.bias.exists() ? sum.bias.data<T>() : nullptr;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const T* from = sum.branch.data<T>() + row * width;
      const S* skip = sum.residual.data<S>() + row * width;
      S* to = out.data<S>() + row * width;
      mask.sweep_row(row, {0, width}, [&](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
        VecF32 x = lanes.load(from + i);
        if (bias != nullptr) x = hn::Add(x, lanes.load(bias + i));
        lanes.store(hn::MulAdd(x, factor, lanes.load(skip + i)), to + i);
      });
    }
  });
}

/// Writes rows of dbranch if it exists. Unless `sums` (C) is null, also adds the rows to `sums`.
void residual_backward_rows(Tensor dbranch, Tensor dout, const Dropout& dropout, const RowMap& map, Range rows,
                            float* sums) {
  with_stream(dout.dtype(), (dbranch.exists() ? dbranch : dout).dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::int64_t width = dout.size(-1);
    const HiddenMask mask(dropout, map, width);
    const bool writes = dbranch.exists();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const S* from = dout.data<S>() + row * width;
      T* to = writes ? dbranch.data<T>() + row * width : nullptr;
      const auto pass = [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
        const VecF32 dx = hn::Mul(lanes.load(from + i), factor);
        if (writes) lanes.store(dx, to + i);
        if (sums != nullptr) lanes.store(hn::Add(lanes.load(sums + i), dx), sums + i);
      };
      mask.sweep_row(row, {0, width}, pass);
    }
  });
}

void add_partials(const Grad& target, const float* partials, std::int64_t number, std::int64_t stride, Range columns) {
  const bool accumulates = target.mode == GradMode::accumulate;
  with_float(target.tensor.dtype(), [&]<class G>(G) HWY_ATTR {
    sweep(columns.size(), [&](std::size_t i, auto lanes) HWY_ATTR {
      const float* from = partials + columns.begin + i;
      G* to = target.tensor.data<G>() + columns.begin + i;
      VecF32 sum = set(0);
      for (std::int64_t n = 0; n < number; ++n) sum = hn::Add(sum, lanes.load(from + n * stride));
      lanes.store(hn::Add(accumulates ? lanes.load(to) : set(0), sum), to);
    });
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
void residual_forward_rows(Tensor out, const ResidualSum& sum, Range rows) {
  MTL_DISPATCH(residual_forward_rows)(out, sum, rows);
}

void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum) {
  parallel_rows(stream.threads(), out.row_count(), out.size(-1),
                [&](Range rows) { residual_forward_rows(out, sum, rows); });
}

void residual_backward(Stream& stream, Tensor work, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  const std::int64_t width = dout.size(-1);
  for_row_sum_blocks(stream, work, dout.row_count(), width, dout.numel(), [&](Range block, float* sums) {
    MTL_DISPATCH(residual_backward_rows)(dbranch, dout, dropout, rows, block, sums);
  });
  if (dbias.wanted())
    sum_partials(stream, dbias, work_as<float>(work), row_sum_blocks(dout.row_count()).number(), width);
}

std::size_t row_sums_work(const Stream&, std::int64_t rows, std::int64_t, std::int64_t sums) {
  return row_sum_blocks(rows).number() * sums * sizeof(float);
}

void sum_partials(Stream& stream, Grad target, const float* partials, std::int64_t number, std::int64_t row_stride) {
  const std::int64_t width = target.tensor.numel();
  Blocks columns{width, 256};
  parallel_for(stream.threads(), columns.number(), width * number, [&](std::int64_t block) {
    MTL_DISPATCH(add_partials)(target, partials, number, row_stride, columns[block]);
  });
}

}  // namespace mtl::cpu
#endif
