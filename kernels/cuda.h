// The operators on CUDA, in a build that includes it. OP_cuda.cu implements them, or a replacement in tests/mirror.
#pragma once

#include "kernels/operators.h"

namespace mtl::cuda {

#include "kernels/operators.inc"

}  // namespace mtl::cuda
