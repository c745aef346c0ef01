// The gated MLP, out = activation(gate) * up. Forward and backward each pass over memory once, with 3 N F and 5 N F
// elements; backward recomputes the activation. Memory-bound.
#include "kernels/cuda.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/flat.h"

namespace mtl::cuda {

namespace {

/// Returns the element of `pre` (N, 2 F) that holds the gate of element `i` of (N, F). The one of `up` is `width`
/// later.
__device__ inline std::int64_t gate_of(std::int64_t i, std::int64_t width) { return i + i / width * width; }

/// A thread has two packs in flight: with one, 32 warps read too little at a time.
template <int n, class T>
__global__ void __launch_bounds__(256, 4)
    gate_elements(T* out, const T* pre, Activation activation, std::int64_t count, std::int64_t width) {
  const std::int64_t stride = all_threads() * n;
  for (std::int64_t i = first_element() * n; i < count; i += 2 * stride) {
    const bool has_second = i + stride < count;
    const T *first = pre + gate_of(i, width), *second = has_second ? pre + gate_of(i + stride, width) : first;
    const Pack<n> x[2] = {load<n>(first), load<n>(second)}, up[2] = {load<n>(first + width), load<n>(second + width)};
#pragma unroll
    for (int k = 0; k < (has_second ? 2 : 1); ++k) {
      const Gates<n> gates = gates_of(activation, x[k]);
      Pack<n> y;
      for (int j = 0; j < n; ++j) y[j] = x[k][j] * gates.value[j] * up[k][j];
      store(out + i + k * stride, y);
    }
  }
}

template <int n, class T>
__global__ void gate_elements_backward(T* dpre, const T* dout, const T* pre, Activation activation, std::int64_t count,
                                       std::int64_t width) {
  for (std::int64_t i = first_element() * n; i < count; i += all_threads() * n) {
    const std::int64_t at = gate_of(i, width);
    const Pack<n> x = load<n>(pre + at), up = load<n>(pre + at + width), dy = load<n>(dout + i);
    const Gates<n> gates = gates_of(activation, x);
    Pack<n> dgate, dup;
    for (int j = 0; j < n; ++j) {
      dgate[j] = dy[j] * up[j] * (gates.value[j] + x[j] * gates.slope[j]);
      dup[j] = dy[j] * x[j] * gates.value[j];
    }
    store(dpre + at, dgate);  // after all loads: dpre may be pre
    store(dpre + at + width, dup);
  }
}

}  // namespace

void gated_forward(Stream& stream, Tensor out, Tensor pre, Activation activation) {
  const std::int64_t width = out.size(-1);
  with_float_type(out.dtype(), [&]<class T>(T) {
    with_pack_size(width, {out, pre}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, gate_elements<n, T>, flat_shape((out.numel() / n + 1) / 2), out.data<T>(), pre.data<T>(),
             activation, out.numel(), width);
    });
  });
}

void gated_backward(Stream& stream, Tensor dpre, Tensor dout, Tensor pre, Activation activation) {
  const std::int64_t width = dout.size(-1);
  with_float_type(dout.dtype(), [&]<class T>(T) {
    with_pack_size(width, {dpre, dout, pre}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, gate_elements_backward<n, T>, flat_shape(dout.numel() / n), dpre.data<T>(), dout.data<T>(),
             pre.data<T>(), activation, dout.numel(), width);
    });
  });
}

}  // namespace mtl::cuda
