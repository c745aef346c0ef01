#include "tests/device_under_test.h"

namespace mtl::test {

Device device_under_test() { return Device::cuda; }
bool device_checks_indices() { return false; }
bool device_has_tensor_cores() { return true; }

}  // namespace mtl::test
