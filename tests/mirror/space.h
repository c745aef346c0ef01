// Emulates the memory of the device cuda on the CPU: a separate mapping that is inaccessible outside of operators and
// copies, so that an access by the host ends the process.
#pragma once

#include <cstddef>

#include "device/tensor.h"

namespace mtl::mirror {

/// Makes the device's memory accessible while it exists.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
};

/// Throws unless all these bytes are in one allocation of device memory: a device cannot use the host's memory.
void require_inside(const void* data, std::size_t bytes);

}  // namespace mtl::mirror
