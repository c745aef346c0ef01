// The skip connection: a branch joins the residual stream.
//
//   out     = residual + dropout(branch + bias)
//   dbranch = dropout'(dout),  dbias = sum over rows of dbranch,  dresidual = dout (nothing to do)
//
// A row-parallel linear layer's bias is added here, once, after ranks have summed its output. Tensors are (N, C); bias
// is (C) or absent. `rows` maps the N rows to samples and positions for the dropout mask. out, residual and dout have
// the residual stream's dtype S. branch, bias and dbranch have the compute dtype T. dbias has a separate dtype G
// (kernels/stream_types.h). Arithmetic and the sum over rows are fp32, so dbias does not sum rounded elements.
#pragma once

#include "device/memory.h"
#include "device/stream.h"
#include "device/tensor.h"
#include "kernels/dropout.h"
#include "kernels/row_map.h"

namespace mtl {

/// Operands for residual + dropout(branch + bias).
struct ResidualSum {
  Tensor residual, branch, bias;
  Dropout dropout;
  RowMap rows;

  bool exists() const { return residual.exists(); }
  /// Throws unless the operands fit `out` and the branch has dtype `compute`.
  void check(const Tensor& out, DType compute) const;
  /// Returns the operands' total size in bytes.
  std::size_t bytes() const { return residual.bytes() + branch.bytes() + bias.bytes(); }
};

/// Where a norm that reads the residual stream writes the stream's gradient. If `skip` exists, it holds the skip
/// connection's gradient, and the norm adds its own gradient to it. If `dbias` is wanted, the norm also sums the rows
/// of `skip`, and so gives what residual_backward() would of a bias that entered the stream there without dropout: the
/// same bits on the CPU. If no gradient is wanted, this is default-constructed.
struct StreamGrad {
  Tensor tensor, skip = {};
  Grad dbias = {};
  bool wanted() const { return tensor.exists(); }
  /// Returns the address of an element of `skip`, or null if `skip` is absent.
  template <class S>
  const S* skip_at(std::int64_t element) const {
    return skip.exists() ? skip.data<S>() + element : nullptr;
  }
};

/// Throws unless dx fits x and dy.
void check_stream_grad(const char* what, const StreamGrad& dx, const Tensor& x, const Tensor& dy);

/// Writes `out`, which may alias sum.residual. If a norm reads `out` next, pass the ResidualSum to the norm instead
/// (kernels/layernorm.h, kernels/rmsnorm.h). The norm then writes `out` in the same pass over memory.
void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum);

/// dbranch may alias dout if S is T. Without dropout, dbranch may be absent if dbias is wanted: only dbias is then
/// computed.
void residual_backward(Stream& stream, Arena& scratch, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows);

}  // namespace mtl
