// The hardware and library versions for which measured choices (device/choices.h) are valid.
#pragma once

#include <string>

#include "device/stream.h"

namespace mtl {

/// Describes the GPU that this process uses, and the versions of driver, cuBLASLt and cuDNN: "NVIDIA H100 80GB HBM3,
/// sm_90, driver 13000, cuBLASLt 130100, cuDNN 91900" (or "no cuDNN"). Choices made in a different context are not
/// used, because their numbers may have a different meaning. Empty for a device on which nothing is measured. Throws
/// Error if cuBLASLt is missing.
std::string choices_context(Device device);

}  // namespace mtl
