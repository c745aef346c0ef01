// Records an operator as a profile entry: the function's name and the operands' shapes.
#pragma once

#include <string>
#include <string_view>

#include "base/str.h"
#include "device/profile.h"
#include "kernels/gemm.h"
#include "kernels/residual.h"

namespace mtl {

/// Returns "layernorm_forward" for the template argument `cpu::layernorm_forward`.
template <auto function>
constexpr std::string_view function_name() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with auto function = mtl::cpu::NAME; ...]", clang: "&mtl::..."
  text.remove_prefix(text.find("function = ") + 11);
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

/// Describes a matmul by its sizes and transpositions, and any other operator by its first tensor that is not a
/// workspace.
class OperandShapes {
 public:
  void add(const Tensor& tensor) {
    if (tensor.exists() && tensor.dtype() != DType::u8 && !first_.exists()) first_ = tensor;
  }
  void add(const Grad& grad) { add(grad.tensor); }
  void add(const StreamGrad& grad) { add(grad.tensor); }
  void add(const Operand& operand) {
    if (!a_.tensor.exists())
      a_ = operand;
    else
      b_ = operand;
  }
  template <class Other>
  void add(const Other&) {}

  DType dtype() const { return a_.tensor.exists() ? a_.tensor.dtype() : first_.dtype(); }
  /// Returns for example "(8192, 768) bfloat16" or, for an M x N x K matmul, "8192x2304x768 bfloat16, A^T".
  std::string text() const {
    if (!first_.exists()) return "";
    if (!b_.tensor.exists()) return cat(first_.shape().text(), " ", name_of(first_.dtype()));
    const std::int64_t inner = a_.transposed ? a_.tensor.row_count() : a_.tensor.size(-1);
    return cat(first_.row_count(), "x", first_.size(-1), "x", inner, " ", name_of(dtype()),
               a_.transposed ? ", A^T" : "", b_.transposed ? ", B^T" : "");
  }

 private:
  Tensor first_;
  Operand a_, b_;
};

template <class... Args>
ProfileEntry operator_entry(std::string_view name, const Args&... args) {
  OperandShapes shapes;
  (shapes.add(args), ...);
  ProfileEntry entry{.kind = ProfileKind::op, .name = std::string(name)};
  entry.detail = shapes.text();
  entry.dtype = shapes.dtype();
  return entry;
}

}  // namespace mtl
