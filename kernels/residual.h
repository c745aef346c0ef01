// The skip connection: a branch joins the residual stream.
//
//   out     = residual + dropout(branch + bias)
//   dbranch = dropout'(dout),  dbias = sum over rows of dbranch,  dresidual = dout (nothing to do)
//
// The bias of a row-parallel linear layer is added here, once, after the sum over ranks. Tensors are (N, C); bias is
// (C) or absent. `rows` maps the N rows to samples and positions for the dropout mask. out, residual and dout have the
// dtype S of the residual stream; branch, bias and dbranch have the compute dtype T; dbias has a separate dtype G
// (kernels/stream_types.h). Arithmetic and the sum over rows are fp32, so dbias is not a sum of rounded elements.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/dropout.h"
#include "kernels/row_map.h"

namespace mtl {

/// The operands of residual + dropout(branch + bias).
struct ResidualSum {
  Tensor residual, branch, bias;
  Dropout dropout;
  RowMap rows;

  bool exists() const { return residual.exists(); }
  /// Throws unless the operands fit `out` and the branch has the dtype `compute`.
  void check(const Tensor& out, DType compute) const;
  /// Returns the total size of the operands, in bytes.
  std::size_t bytes() const { return residual.bytes() + branch.bytes() + bias.bytes(); }
};

/// Writes `out`, which may be sum.residual itself. If a norm reads `out` next, pass the ResidualSum to the norm instead
/// (kernels/layernorm.h, kernels/rmsnorm.h); the norm then writes `out` in the same pass over memory.
void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum);

/// dbranch may be dout itself if S is T. In this case, if dropout is off, only dbias is computed.
void residual_backward(Stream& stream, Arena& scratch, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows);

}  // namespace mtl
