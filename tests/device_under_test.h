// The device on which a test program runs its operators, so that one suite serves every device.
#pragma once

#include "device/stream.h"

namespace mtl::test {

/// Returns cpu, unless the program is linked with another definition (tests/mirror).
Device device_under_test();

/// True if operators throw for an index in device memory that is out of range. Kernels on a GPU cannot: they access
/// nothing out of bounds, and what they compute from such an index is undefined.
bool device_checks_indices();

/// True if operators multiply 16-bit numbers on tensor cores, and round intermediate results between products to 16
/// bits.
bool device_has_tensor_cores();

}  // namespace mtl::test
