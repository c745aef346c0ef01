// The device on which a test program runs its operators, so that one suite serves every device.
#pragma once

#include "device/stream.h"

namespace mtl::test {

/// Returns cpu, or cuda in programs that are linked with on_cuda.cpp of tests/mirror or tests/cuda_on_cpu.
Device device_under_test();

/// Returns true if operators throw for an out-of-range index in device memory. Kernels on a GPU cannot: they access
/// nothing out of bounds, but their results are undefined.
bool device_checks_indices();

/// Returns true if operators multiply 16-bit numbers on tensor cores, and round intermediate results between products
/// to 16 bits.
bool device_has_tensor_cores();

}  // namespace mtl::test
