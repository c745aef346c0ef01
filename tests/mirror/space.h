// Emulates the memory of the device cuda on the cpu: a separate mapping that is closed outside of operators and copies,
// so that a host access ends the process.
#pragma once

#include <cstddef>

#include "device/tensor.h"

namespace mtl::mirror {

/// Keeps the space open while it exists.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
};

/// Throws unless all these bytes are in the space: a device cannot use the host's memory.
void require_inside(const void* data, std::size_t bytes);

}  // namespace mtl::mirror
