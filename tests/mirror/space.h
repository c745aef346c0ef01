// The memory of the device cuda, played by the cpu: a mapping of its own, which is closed outside of operators and
// copies, so that a host that reads or writes it dies.
#pragma once

#include <cstddef>

#include "device/tensor.h"

namespace mtl::mirror {

/// The space is open while one of these lives.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
};

/// Throws unless all of these bytes are in the space: a device cannot use the host's memory.
void require_inside(const void* data, std::size_t bytes);

}  // namespace mtl::mirror
