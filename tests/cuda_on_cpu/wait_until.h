// Lets emulated threads (tests/cuda_on_cpu/grid.h) wait for something other than their warp or block.
#pragma once

#include <functional>

namespace mtl::emulated {

/// Polls `is_done()` until it returns true. Throws Error, naming `what`, if that can never happen.
void wait_until(const char* what, const std::function<bool()>& is_done);

}  // namespace mtl::emulated
