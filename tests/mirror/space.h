// Emulates the device cuda's memory on the CPU: a separate mapping that is accessible only inside operators and copies.
// If the host accesses it, the process crashes.
#pragma once

#include <cstddef>

#include "device/tensor.h"

namespace mtl::mirror {

/// Makes device memory accessible while it exists.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
};

/// Throws unless all these bytes are in one device memory allocation. A device cannot use host memory.
void require_inside(const void* data, std::size_t bytes);

}  // namespace mtl::mirror
