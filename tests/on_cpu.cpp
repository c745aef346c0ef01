#include "tests/device_under_test.h"

namespace mtl::test {

Device device_under_test() { return Device::cpu; }
bool device_checks_indices() { return true; }
bool device_has_tensor_cores() { return false; }

}  // namespace mtl::test
