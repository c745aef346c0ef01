// Parts of the CUDA matrix product: cuBLASLt multiplies; our kernels apply the epilogues that it lacks.
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
  /// Launches the kernels that would apply the epilogue after a plain product. To be measured, the kernels may run
  /// before the product, several times; they may write only the product's results and the workspace.
  std::function<void()> launch_unfused{};
};

/// Bytes of the workspace that cuBLASLt may use; part of every product's scratch.
inline constexpr std::size_t kGemmWorkspace = std::size_t{32} << 20;

/// Multiplies by cuBLASLt. A and B have one dtype; C has the same or f32. With an epilogue, returns false and computes
/// nothing if the library has no algorithm for it, or if a plain product and `launch_unfused` are faster. Throws Error
/// if the library is missing or fails, or has no algorithm for a plain product.
///
/// The first product of a shape chooses the algorithm: the one recorded in the stream's Choices, if the library accepts
/// it; otherwise the fastest of the library's suggestions, all of which are measured, and the fastest is added to the
/// Choices. Measuring waits for the stream and overwrites only C; for a product that accumulates, it allocates a buffer
/// as large as C. While the stream is captured, or without memory for the buffer, the library's first suggestion is
/// used.
bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue);

/// Returns "cuBLASLt 130100". Throws Error if the library is missing.
std::string product_library();

}  // namespace mtl::cuda
