// The operators on the device cuda, in a build that has it. Today that is tests/mirror alone.
#pragma once

#include "kernels/operators.h"

namespace mtl::cuda {

#include "kernels/operators.inc"

}  // namespace mtl::cuda
