// The skip connection: a branch joins the residual stream.
//
//   out     = residual + dropout(branch + bias)
//   dbranch = dropout'(dout),  dbias = sum over rows of dbranch,  dresidual = dout (nothing to do)
//
// The bias of a row-parallel linear is added here, once, after the sum over ranks. Tensors (N, C), bias (C) or left
// out; `rows` places the N rows for the dropout.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/dropout.h"
#include "kernels/row_map.h"

namespace mtl {

/// out may be residual itself.
void residual_forward(Stream& stream, Tensor out, Tensor residual, Tensor branch, Tensor bias, const Dropout& dropout,
                      const RowMap& rows);

/// With dropout off dbranch may be dout itself: then only dbias is computed.
void residual_backward(Stream& stream, Arena& scratch, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows);

}  // namespace mtl
