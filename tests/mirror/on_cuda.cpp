#include "tests/device_under_test.h"

namespace mtl::test {

Device device_under_test() { return Device::cuda; }

}  // namespace mtl::test
