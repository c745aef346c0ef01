// The hardware and library versions for which a set of measured choices (device/choices.h) is valid.
#pragma once

#include <string>

#include "device/stream.h"

namespace mtl {

/// Describes the GPU this process uses, and the driver, cuBLASLt and cuDNN versions: "NVIDIA H100 80GB HBM3, sm_90,
/// driver 13000, cuBLASLt 130100, cuDNN 91900" (or "no cuDNN"). Choices from another context are not used, because
/// their numbers may mean something else. Empty for a device on which nothing is measured. Throws Error if cuBLASLt is
/// missing.
std::string choices_context(Device device);

}  // namespace mtl
