// Applies a matmul's epilogue in one pass over the rows: accumulation, bias, activation, rounding. Also computes the
// bias gradient.
#include <type_traits>

#include "kernels/gemm_cpu.h"

#define MTL_SIMD_FILE "kernels/gemm_cpu_epilogue.cpp"
#include "kernels/activation_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// The products have type P, C has T.
template <class Function, class P, class T>
void finish_row_by(const cpu::EpilogueRow& row) {
  const P* products = static_cast<const P*>(row.products);
  T *c = static_cast<T*>(row.c), *aux_out = static_cast<T*>(row.aux_out);
  const T *bias = static_cast<const T*>(row.bias), *aux_in = static_cast<const T*>(row.aux_in);
  const bool accumulate = row.accumulate, writes_aux = aux_out != nullptr && row.aux_out != row.products;
  sweep(row.n, [&](std::size_t i, auto lanes) HWY_ATTR {
    VecF32 x = lanes.load(products + i);
    if (accumulate) x = hn::Add(lanes.load(c + i), x);
    if (bias != nullptr) x = hn::Add(x, lanes.load(bias + i));
    if (writes_aux) {
      lanes.store(x, aux_out + i);
      if constexpr (!std::is_same_v<T, float>) x = lanes.load(aux_out + i);  // rounded, as backward reads it
    }
    if (aux_out != nullptr) x = Function::value(x);
    if (aux_in != nullptr) x = hn::Mul(x, Function::derivative(lanes.load(aux_in + i)));
    lanes.store(x, c + i);
  });
}

void finish_row(Activation activation, const cpu::EpilogueRow& row) {
  with_activation(activation, [&](auto function) HWY_ATTR {
    with_float(row.dtype, [&](auto t) HWY_ATTR {
      using T = decltype(t);
      if (row.products_dtype == row.dtype)
        finish_row_by<decltype(function), T, T>(row);
      else
        finish_row_by<decltype(function), float, T>(row);
    });
  });
}

/// sums (width) = sum over some rows of dy (rows, width).
void sum_rows(const Tensor& dy, Range rows, float* sums) {
  const std::int64_t width = dy.size(-1);
  std::fill_n(sums, width, 0.0f);
  with_float(dy.dtype(), [&](auto t) HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const auto* from = dy.data<decltype(t)>() + row * width;
      sweep(width, [=](std::size_t i, auto lanes)
                       HWY_ATTR { lanes.store(hn::Add(lanes.load(sums + i), lanes.load(from + i)), sums + i); });
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

/// Returns an element's address, or null if the tensor is absent.
void* element(const Tensor& tensor, std::int64_t row, std::int64_t column) {
  if (!tensor.exists()) return nullptr;
  const std::int64_t index = row * tensor.size(-1) + column;
  return static_cast<char*>(tensor.raw()) + index * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

/// Returns row blocks of dy. Each block has its own partial sum.
Blocks bias_blocks(const Tensor& dy) { return {dy.row_count(), 64}; }
}  // namespace

void finish_tile(const Tensor& c, bool accumulate, const Epilogue& epilogue, const Tile& tile) {
  const Tensor none, aux_out = epilogue.act == Epilogue::Act::forward ? epilogue.aux : none,
                     aux_in = epilogue.act == Epilogue::Act::backward ? epilogue.aux : none;
  const std::int64_t column = tile.columns.begin, size = static_cast<std::int64_t>(size_of(tile.dtype));
  for (std::int64_t row = tile.rows.begin; row < tile.rows.end; ++row) {
    const char* products = static_cast<const char*>(tile.values) + (row - tile.rows.begin) * tile.stride * size;
    MTL_DISPATCH(finish_row)
    (epilogue.activation, {.dtype = c.dtype(),
                           .products_dtype = tile.dtype,
                           .products = products,
                           .c = element(c, row, column),
                           .accumulate = accumulate,
                           .bias = element(epilogue.bias, 0, column),
                           .aux_out = element(aux_out, row, column),
                           .aux_in = element(aux_in, row, column),
                           .n = static_cast<std::size_t>(tile.columns.size())});
  }
}

void finish(Stream& stream, Tensor c, const Epilogue& epilogue, Tensor products) {
  const std::int64_t width = c.size(-1);
  parallel_rows(stream.threads(), c.row_count(), width, [&](Range rows) {
    finish_tile(c, false, epilogue,
                {.rows = rows,
                 .columns = {0, width},
                 .values = element(products, rows.begin, 0),
                 .dtype = products.dtype(),
                 .stride = width});
  });
}

void sum_bias_gradient(Stream& stream, Tensor work, const Grad& dbias, const Tensor& dy) {
  const Blocks blocks = bias_blocks(dy);
  auto* sums = work_as<float>(work);
  parallel_for(stream.threads(), blocks.number(), dy.numel(), [&](std::int64_t block) {
    MTL_DISPATCH(sum_rows)(dy, blocks[block], sums + block * dy.size(-1));
  });
  sum_partials(stream, dbias, sums, blocks.number(), dy.size(-1));
}

std::size_t sum_bias_gradient_work(const Tensor& dy) { return bias_blocks(dy).number() * dy.size(-1) * sizeof(float); }

}  // namespace mtl::cpu
#endif
