// The hardware and library versions for which measured choices (device/choices.h) are valid.
#pragma once

#include <string>

#include "device/stream.h"

namespace mtl {

/// The GPU that this process uses, its driver, and the matrix product library: "NVIDIA H100 80GB HBM3, sm_90, driver
/// 13000, cuBLASLt 130100". Choices made under another context are not used: their numbers may mean something else.
/// Empty for a device on which nothing is measured. Throws Error if the library is missing.
std::string choices_context(Device device);

}  // namespace mtl
