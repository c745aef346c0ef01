// Memory-bound passes between the products of Newton-Schulz iterations, one element per thread and turn.
#include "kernels/cuda.h"
#include "kernels/cuda/any_array.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

namespace {

__global__ void scale_elements(AnyArray out, AnyArray in, const double* sum, std::int64_t count) {
  const double norm = sqrt(*sum);
  const auto factor = static_cast<float>(1 / (norm > 1e-7 ? norm : 1e-7));
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    Pack<1> x = load<1>(in, i);
    x[0] *= factor;
    store(out, i, x);
  }
}

__global__ void polynomial_elements(AnyArray squared, AnyArray a, QuinticStep step, std::int64_t size) {
  for (std::int64_t i = first_element(); i < size * size; i += all_threads()) {
    Pack<1> x = load<1>(squared, i);
    x[0] = fmaf(step.c, x[0], step.b * load<1>(a, i)[0]) + (i / size == i % size ? step.a : 0);
    store(squared, i, x);
  }
}

}  // namespace

void divide_by_norm(Stream& stream, Tensor out, Tensor in, Tensor sum) {
  launch(stream, scale_elements, flat_shape(out.numel()), AnyArray(out), AnyArray(in), sum.data<double>(), out.numel());
}

void quintic_polynomial(Stream& stream, Tensor squared, Tensor a, const QuinticStep& step) {
  launch(stream, polynomial_elements, flat_shape(squared.numel()), AnyArray(squared), AnyArray(a), step,
         squared.size(0));
}

}  // namespace mtl::cuda
