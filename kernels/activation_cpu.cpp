// The gated MLP. Forward and backward each pass over memory once; backward recomputes the activation.
#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/activation_cpu.cpp"
#include "kernels/activation_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

void gated_forward_rows(Tensor out, Tensor pre, Activation activation, Range rows) {
  with_activation(activation, [&]<class Function>(Function) HWY_ATTR {
    with_float(out.dtype(), [&]<class T>(T) HWY_ATTR {
      const std::int64_t width = out.size(1);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const T *gate = pre.data<T>() + row * 2 * width, *up = gate + width;
        T* to = out.data<T>() + row * width;
        sweep(width, [=](std::size_t i, auto lanes) HWY_ATTR {
          lanes.store(hn::Mul(Function::value(lanes.load(gate + i)), lanes.load(up + i)), to + i);
        });
      }
    });
  });
}

void gated_backward_rows(Tensor dpre, Tensor dout, Tensor pre, Activation activation, Range rows) {
  with_activation(activation, [&]<class Function>(Function) HWY_ATTR {
    with_float(dout.dtype(), [&]<class T>(T) HWY_ATTR {
      const std::int64_t width = dout.size(1);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const T *gate = pre.data<T>() + row * 2 * width, *up = gate + width;
        const T* dy = dout.data<T>() + row * width;
        T *dgate = dpre.data<T>() + row * 2 * width, *dup = dgate + width;
        sweep(width, [=](std::size_t i, auto lanes) HWY_ATTR {
          const VecF32 x = lanes.load(gate + i), d = lanes.load(dy + i);
          const VecF32 dx = hn::Mul(hn::Mul(d, lanes.load(up + i)), Function::derivative(x));
          lanes.store(hn::Mul(d, Function::value(x)), dup + i);  // after all loads: dpre may alias pre
          lanes.store(dx, dgate + i);
        });
      }
    });
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
void gated_forward(Stream& stream, Tensor out, Tensor pre, Activation activation) {
  parallel_rows(stream.threads(), pre.size(0), pre.size(1), [&](Range rows) {
    MTL_DISPATCH(gated_forward_rows)(out, pre, activation, rows);
  });
}

void gated_backward(Stream& stream, Tensor dpre, Tensor dout, Tensor pre, Activation activation) {
  parallel_rows(stream.threads(), pre.size(0), pre.size(1), [&](Range rows) {
    MTL_DISPATCH(gated_backward_rows)(dpre, dout, pre, activation, rows);
  });
}

}  // namespace mtl::cpu
#endif
