// Names what the mirror computes with, in place of the GPU's libraries.
#include "kernels/attention_cuda.h"
#include "kernels/gemm_cuda.h"

namespace mtl::cuda {

std::string product_library() { return "the cpu's products"; }
std::string attention_library() { return "the cpu's attention"; }

}  // namespace mtl::cuda
