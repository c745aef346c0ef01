// The combinations of dtypes that the operands of an operator may have.
//
// A layer computes in one dtype T: f32, bf16 or f16. The residual stream has dtype T, or f32 if T is narrower and
// --fp32-residual-connection is given. Parameters that an operator reads have dtype T. The gradient of a parameter has
// a separate dtype, which may be any of the three. Gradients are summed in fp32 and rounded when they are written.
#pragma once

#include "device/tensor.h"

namespace mtl {

/// Throws "what: expected float32, bfloat16 or float16, got ..." unless operators support the tensor's dtype.
void expect_computed(const char* what, const Tensor& tensor);

/// Throws unless the compute dtype `compute` allows a residual stream of dtype `stream`.
void expect_stream(const char* what, DType stream, DType compute);

/// Throws if `out` has the same address as `in` but a different dtype. An operation in place must not change the size
/// of elements.
void expect_in_place(const char* what, const Tensor& out, const Tensor& in);

/// If the gradient is wanted, throws unless it has this shape and a dtype that operators compute with.
void expect_grad(const char* what, const Grad& grad, const Shape& shape);

}  // namespace mtl
