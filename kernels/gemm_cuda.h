// Parts of the matrix product on CUDA. cuBLASLt multiplies; our kernels apply the epilogues that cuBLASLt lacks.
#pragma once

#include <functional>
#include <string>

#include "kernels/cuda.h"
#include "kernels/gemm_product.h"

namespace mtl::cuda {

/// The epilogue that cuBLASLt applies before it writes a product. Adds a bias and then applies `act` with
/// Activation::gelu_tanh and `aux`, as described in kernels/gemm.h. Forward reads aux before aux is rounded.
/// Alternatively, and without bias and activation, computes the bias gradient: dbias (M) = the sums of op(A) over K,
/// always overwritten, in the dtype of C.
struct FusedEpilogue {
  Tensor bias{};
  Epilogue::Act act = Epilogue::Act::none;
  Tensor aux{};
  Tensor dbias{};
  /// Launches the kernels that would apply the epilogue after a plain product. For measurements, the kernels may run
  /// before the product and several times. They may write only the results of the product and the workspace.
  std::function<void()> launch_unfused{};
};

/// The size, in bytes, of the workspace that cuBLASLt may use. The workspace is part of the scratch memory of every
/// product.
inline constexpr std::size_t kGemmWorkspace = std::size_t{32} << 20;

/// Multiplies with cuBLASLt. A and B have the same dtype; C has that dtype or f32. If there is an epilogue, but the
/// library has no algorithm for it or a plain product followed by `launch_unfused` is faster, computes nothing and
/// returns false. Throws Error if the library is missing or fails, or has no algorithm for a plain product.
///
/// The first product with a given shape chooses the algorithm: the algorithm recorded in the stream's Choices, if the
/// library accepts it. Otherwise, all algorithms that the library suggests are measured, and the fastest is chosen and
/// added to the Choices. Measuring waits for the stream and overwrites only C; for a product that accumulates, it
/// allocates a buffer as large as C. While the stream is being captured, or if there is no memory for the buffer, the
/// first suggestion of the library is used.
bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue);

/// Returns "cuBLASLt 130100". Throws Error if the library is missing.
std::string product_library();

}  // namespace mtl::cuda
