// Replaces kernels/cuda.h in the mirror: its operators for the device cuda call the cpu's.
#pragma once

#include "tests/mirror/forward.h"

namespace mtl::cuda {

#define MTL_OPERATOR(result, name, parameters) inline constexpr auto name = &mirror::Mirrored<cpu::name>::call;
#include "kernels/operators.inc"

}  // namespace mtl::cuda
