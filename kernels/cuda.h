// The operators on CUDA, in a build that includes it. OP_cuda.cu implements them; tests/mirror/kernels/cuda.h replaces
// this file.
#pragma once

#include "kernels/operators.h"

namespace mtl::cuda {

#define MTL_OPERATOR(result, name, parameters) result name parameters;
#include "kernels/operators.inc"

}  // namespace mtl::cuda
