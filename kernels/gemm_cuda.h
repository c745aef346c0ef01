// Parts of the matmul on CUDA. cuBLASLt multiplies, and our kernels apply the epilogues that cuBLASLt does not support.
#pragma once

#include <functional>
#include <string>

#include "kernels/cuda.h"
#include "kernels/gemm_product.h"

namespace mtl::cuda {

/// The epilogue that cuBLASLt applies before it writes a product. Adds a bias and then applies `act` with
/// Activation::gelu_tanh and `aux`, as described in kernels/gemm.h. Forward reads aux before aux is rounded.
/// Alternatively, without bias and activation, computes the bias gradient: dbias (M) = sums of op(A) over K, always
/// overwritten, in the dtype of C.
struct FusedEpilogue {
  Tensor bias{};
  Epilogue::Act act = Epilogue::Act::none;
  Tensor aux{};
  Tensor dbias{};
  /// Launches the kernels that would apply the epilogue after a plain matmul. When measuring, these kernels may run
  /// multiple times, and before the matmul. They may write only the matmul's results and the workspace.
  std::function<void()> launch_unfused{};
};

/// The size in bytes of the workspace that cuBLASLt may use. Every matmul's scratch memory includes it.
inline constexpr std::size_t kGemmWorkspace = std::size_t{32} << 20;

/// Multiplies with cuBLASLt. A and B have the same dtype; C has that dtype or f32. With an epilogue, computes nothing
/// and returns false if the library has no algorithm for it, or if a plain matmul followed by `launch_unfused` is
/// faster. Throws Error if the library is missing or fails, or cannot launch any algorithm for a plain matmul.
///
/// The first matmul with a given shape chooses the algorithm. It uses the algorithm recorded in the stream's Choices if
/// the library accepts that. Otherwise it measures all algorithms that the library suggests, chooses the fastest, and
/// adds it to the Choices. Measuring waits for the stream and overwrites only C and the epilogue's results (aux,
/// dbias). A matmul that accumulates allocates a buffer as large as C for this. While the stream is being captured, or
/// if there is no memory for the buffer, the library's first suggestion is used, but not added to the Choices. An
/// algorithm that fails to launch is replaced in the same way, without it.
bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue);

/// Returns "cuBLASLt 130100". Throws Error if the library is missing.
std::string product_library();

}  // namespace mtl::cuda
