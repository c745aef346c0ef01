// The hardware and library versions that choices by measuring (device/choices.h) are valid for.
#pragma once

#include <string>

#include "device/stream.h"

namespace mtl {

/// The GPU that this process uses, its driver, and the library of products: "NVIDIA H100 80GB HBM3, sm_90, driver
/// 13000, cuBLASLt 130100". Choices of another text are not used: their numbers may mean something else. Empty for a
/// device on which nothing is measured. Throws Error when the library is missing.
std::string choices_context(Device device);

}  // namespace mtl
