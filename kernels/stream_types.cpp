#include "kernels/stream_types.h"

namespace mtl {

void expect_computed(const char* what, const Tensor& tensor) {
  require(is_computed(tensor.dtype()), what, ": expected float32, bfloat16 or float16, got ", name_of(tensor.dtype()));
}

void expect_stream(const char* what, DType stream, DType compute) {
  require(is_computed(compute) && (stream == compute || stream == DType::f32), what, ": the residual stream is ",
          name_of(stream), ", layers compute in ", name_of(compute), "; it must have their dtype or float32");
}

void expect_in_place(const char* what, const Tensor& out, const Tensor& in) {
  const bool same = out.raw() != nullptr && out.raw() == in.raw();  // meta tensors have no address
  require(!same || out.dtype() == in.dtype(), what, ": the output is ", name_of(out.dtype()), ", the input ",
          name_of(in.dtype()), "; in place, both must have the same dtype");
}

void expect_grad(const char* what, const Grad& grad, const Shape& shape) {
  if (!grad.wanted()) return;
  expect_computed(what, grad.tensor);
  expect_tensor(what, grad.tensor, grad.tensor.dtype(), shape);
}

}  // namespace mtl
