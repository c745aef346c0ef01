#include "kernels/stream_types.h"

namespace mtl {

void expect_computed(const char* what, const Tensor& tensor) {
  require(is_computed(tensor.dtype()), what, ": expected float32, bfloat16 or float16, got ", name_of(tensor.dtype()));
}

void expect_stream(const char* what, DType stream, DType compute) {
  require(is_computed(compute) && (stream == compute || stream == DType::f32), what, ": a residual stream of ",
          name_of(stream), " does not go with layers that compute in ", name_of(compute));
}

void expect_in_place(const char* what, const Tensor& out, const Tensor& in) {
  const bool same = out.raw() != nullptr && out.raw() == in.raw();  // no tensor on meta has an address
  require(!same || out.dtype() == in.dtype(), what, ": ", name_of(out.dtype()), " over ", name_of(in.dtype()),
          "; in place needs one dtype");
}

void expect_grad(const char* what, const Grad& grad, const Shape& shape) {
  if (!grad.wanted()) return;
  expect_computed(what, grad.tensor);
  expect_tensor(what, grad.tensor, grad.tensor.dtype(), shape);
}

}  // namespace mtl
