// Selects the device on which a test program runs its operators, so that one suite serves every device.
#pragma once

#include "device/stream.h"

namespace mtl::test {

/// Returns cpu. Returns cuda in programs that link on_cuda.cpp from tests/mirror or tests/cuda_on_cpu.
Device device_under_test();

/// Returns true if operators throw when an index in device memory is out of range. GPU kernels cannot throw: they
/// access nothing out of bounds, but their results are undefined.
bool device_checks_indices();

/// Returns true if operators multiply 16-bit numbers on tensor cores and round intermediate results between matmuls to
/// 16 bits.
bool device_has_tensor_cores();

}  // namespace mtl::test
