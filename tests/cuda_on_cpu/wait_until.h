// How threads of tests/cuda_on_cpu/grid.h wait for something other than a barrier of their warp or block.
#pragma once

#include <functional>

namespace mtl::emulated {

/// Waits until `is_done()`, which is polled. Throws Error, naming `what`, if that never happens.
void wait_until(const char* what, const std::function<bool()>& is_done);

}  // namespace mtl::emulated
