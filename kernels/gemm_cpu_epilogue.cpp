// Applies a matmul's epilogue in one pass over the rows: accumulation, bias, activation, rounding. Also computes the
// bias gradient.
#include <type_traits>

#include "kernels/gemm_cpu.h"

#define MTL_SIMD_FILE "kernels/gemm_cpu_epilogue.cpp"
#include "kernels/activation_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// The products have type P, C and the epilogue's tensors have T.
template <class Function, class P, class T>
void finish_rows(const Tensor& c, bool accumulate, const Epilogue& epilogue, const cpu::Tile& tile) {
  const bool is_forward = epilogue.act == Epilogue::Act::forward, is_backward = epilogue.act == Epilogue::Act::backward;
  // Returns the address of a row's elements in the tile, or null if the tensor is absent.
  const auto part_of = [&](const Tensor& tensor, std::int64_t row) {
    return tensor.exists() ? tensor.data<T>() + row * c.size(-1) + tile.columns.begin : nullptr;
  };
  const T* bias = part_of(epilogue.bias, 0);
  for (std::int64_t row = tile.rows.begin; row < tile.rows.end; ++row) {
    const P* products = static_cast<const P*>(tile.values) + (row - tile.rows.begin) * tile.stride;
    T *to = part_of(c, row), *aux = part_of(epilogue.aux, row);
    const bool writes_aux = is_forward && static_cast<const void*>(aux) != products;
    sweep(tile.columns.size(), [&](std::size_t i, auto lanes) HWY_ATTR {
      VecF32 x = lanes.load(products + i);
      if (accumulate) x = hn::Add(lanes.load(to + i), x);
      if (bias != nullptr) x = hn::Add(x, lanes.load(bias + i));
      if (writes_aux) {
        lanes.store(x, aux + i);
        if constexpr (!std::is_same_v<T, float>) x = lanes.load(aux + i);  // rounded, as backward reads it
      }
      if (is_forward) x = Function::value(x);
      if (is_backward) x = hn::Mul(x, Function::derivative(lanes.load(aux + i)));
      lanes.store(x, to + i);
    });
  }
}

void finish_part(const Tensor& c, bool accumulate, const Epilogue& epilogue, const cpu::Tile& tile) {
  with_activation(epilogue.activation, [&]<class Function>(Function) HWY_ATTR {
    with_float(c.dtype(), [&]<class T>(T) HWY_ATTR {
      if (tile.dtype == c.dtype()) return finish_rows<Function, T, T>(c, accumulate, epilogue, tile);
      finish_rows<Function, float, T>(c, accumulate, epilogue, tile);
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

/// Returns row blocks of dy. Each block has its own partial sum.
Blocks bias_blocks(const Tensor& dy) { return {dy.row_count(), 64}; }
}  // namespace

void finish_tile(const Tensor& c, bool accumulate, const Epilogue& epilogue, const Tile& tile) {
  MTL_DISPATCH(finish_part)(c, accumulate, epilogue, tile);
}

void finish(Stream& stream, Tensor c, const Epilogue& epilogue, Tensor products) {
  const std::int64_t width = c.size(-1);
  parallel_rows(stream.threads(), c.row_count(), width, [&](Range rows) {
    finish_tile(c, false, epilogue,
                {.rows = rows,
                 .columns = {0, width},
                 .values = as_matrix(products).rows(rows.begin, rows.size()).raw(),
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
