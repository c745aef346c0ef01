// The operators on the device cuda, in a build that has it: OP_cuda.cu, or their replacements in tests/mirror.
#pragma once

#include "kernels/operators.h"

namespace mtl::cuda {

#include "kernels/operators.inc"

}  // namespace mtl::cuda
