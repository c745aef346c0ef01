// The combinations of dtypes that the operands of an operator may have.
//
// A layer computes in one dtype T: f32, bf16 or f16. The residual stream has the same dtype, or f32 with a narrower
// T (--fp32-residual-connection). Parameters that an operator reads have T. Gradients of parameters have a
// dtype of their own, any of the three: they are summed in fp32 and rounded when they are written.
#pragma once

#include "device/tensor.h"

namespace mtl {

/// Throws "what: expected float32, bfloat16 or float16, got ..." unless operators compute with the tensor's dtype.
void expect_computed(const char* what, const Tensor& tensor);

/// Throws unless T = `compute` allows a residual stream of dtype `stream`.
void expect_stream(const char* what, DType stream, DType compute);

/// Throws if `out` shares its address with `in` and has another dtype: in place, each element must keep its size.
void expect_in_place(const char* what, const Tensor& out, const Tensor& in);

/// Throws if the gradient is wanted and does not have this shape, or a dtype that operators compute with.
void expect_grad(const char* what, const Grad& grad, const Shape& shape);

}  // namespace mtl
