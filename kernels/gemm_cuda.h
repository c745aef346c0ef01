// The parts of the matrix product on the device cuda: cuBLASLt multiplies, and kernels of ours finish what it cannot.
#pragma once

#include "kernels/cuda.h"
#include "kernels/gemm_product.h"

namespace mtl::cuda {

/// The epilogue that cuBLASLt applies before it writes a product: adds a bias, then `act` with Activation::gelu_tanh
/// and `aux`, as kernels/gemm.h describes them. Forward reads aux before it is rounded.
struct FusedEpilogue {
  Tensor bias{};
  Epilogue::Act act = Epilogue::Act::none;
  Tensor aux{};
};

/// The area that cuBLASLt may use, in bytes; part of every product's scratch.
inline constexpr std::size_t kGemmWorkspace = std::size_t{32} << 20;

/// By cuBLASLt. A and B have one dtype, C that or f32. Without an epilogue every product has an algorithm; with one,
/// returns false and computes nothing where the library has none. Throws Error when the library is missing or fails.
/// The algorithm is chosen at the first product of a shape and kept by the stream.
bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue);

}  // namespace mtl::cuda
