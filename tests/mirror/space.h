// Emulates the device cuda's memory on the CPU: a separate mapping that is accessible only inside operators and copies,
// which can access their operands alone. If the host accesses it, the process crashes.
#pragma once

#include <cstddef>
#include <vector>

#include "device/tensor.h"

namespace mtl::mirror {

/// Bytes of device memory.
struct Memory {
  const void* data;
  std::size_t bytes;
};

/// Makes device memory accessible while it exists: all of it, or the pages that contain `memory`. Only the former
/// may be nested.
class Opened {
 public:
  Opened();
  explicit Opened(const std::vector<Memory>& memory);
  ~Opened();
  Opened(const Opened&) = delete;

 private:
  std::vector<Memory> pages_;
  bool all_ = false;
};

/// Throws unless all these bytes are in one device memory allocation. A device cannot use host memory.
void require_inside(const void* data, std::size_t bytes);

}  // namespace mtl::mirror
