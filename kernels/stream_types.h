// The dtype combinations that operators accept.
//
// A layer computes in one dtype T: f32, bf16 or f16. The residual stream has dtype T, or f32 if T is narrower and
// --fp32-residual-connection is given. Operators read parameters in dtype T. A parameter's gradient has a separate
// dtype, which can be any of the three. Gradients are summed in fp32 and rounded when they are written.
#pragma once

#include "device/tensor.h"

namespace mtl {

/// Throws "what: expected float32, bfloat16 or float16, got ..." unless operators support the tensor's dtype.
void expect_computed(const char* what, const Tensor& tensor);

/// Throws unless a residual stream of dtype `stream` is allowed with the compute dtype `compute`.
void expect_stream(const char* what, DType stream, DType compute);

/// Throws if `out` has the same address as `in` but a different dtype. An in-place operation must not change the
/// element size.
void expect_in_place(const char* what, const Tensor& out, const Tensor& in);

/// If the gradient is wanted, throws unless it has this shape and a dtype that operators compute with.
void expect_grad(const char* what, const Grad& grad, const Shape& shape);

}  // namespace mtl
