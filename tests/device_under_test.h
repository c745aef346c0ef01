// The device that a test program's operators run on: tests ask for it here, so that one suite serves every device.
#pragma once

#include "device/stream.h"

namespace mtl::test {

/// The cpu, unless the program is linked with another answer (tests/mirror).
Device device_under_test();

}  // namespace mtl::test
