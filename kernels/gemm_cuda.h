// The parts of the matrix product on the device cuda: cuBLASLt multiplies, and kernels of ours finish what it cannot.
#pragma once

#include <functional>
#include <string>

#include "kernels/cuda.h"
#include "kernels/gemm_product.h"

namespace mtl::cuda {

/// The epilogue that cuBLASLt applies before it writes a product: adds a bias, then `act` with Activation::gelu_tanh
/// and `aux`, as kernels/gemm.h describes them. Forward reads aux before it is rounded. Or, with nothing else, the bias
/// gradient: dbias (M) = the sums of op(A) over K, always overwritten, of C's dtype.
struct FusedEpilogue {
  Tensor bias{};
  Epilogue::Act act = Epilogue::Act::none;
  Tensor aux{};
  Tensor dbias{};
  /// Gives the stream the kernels that would apply the epilogue after a plain product. They may run before the product,
  /// several times, to be measured, and may write only what the product writes, and the workspace.
  std::function<void()> apart{};
};

/// The area that cuBLASLt may use, in bytes; part of every product's scratch.
inline constexpr std::size_t kGemmWorkspace = std::size_t{32} << 20;

/// By cuBLASLt. A and B have one dtype, C that or f32. Without an epilogue every product has an algorithm; with one,
/// returns false and computes nothing where the library has none, or `apart` is faster. Throws Error when the library
/// is missing or fails.
///
/// The first product of a shape chooses the algorithm: the one that the stream's Choices name, if the library accepts
/// it; otherwise the fastest of those that the library suggests, each measured, which is added to the Choices.
/// Measuring waits for the stream and overwrites C alone; a product that accumulates takes a buffer as large as C for
/// it. While the stream is captured, or without such a buffer, the library's first suggestion is taken.
bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue);

/// "cuBLASLt 130100". Throws Error when the library is missing.
std::string product_library();

}  // namespace mtl::cuda
