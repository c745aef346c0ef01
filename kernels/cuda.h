// The operators on the device cuda, in a build with CUDA. They are implemented in OP_cuda.cu or by replacements in
// tests/mirror.
#pragma once

#include "kernels/operators.h"

namespace mtl::cuda {

#include "kernels/operators.inc"

}  // namespace mtl::cuda
