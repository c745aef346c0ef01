// Lets emulated threads (tests/cuda_on_cpu/grid.h) wait for something other than their warp or block.
#pragma once

#include <functional>

namespace mtl::emulated {

/// Polls `is_done()` until it returns true. If that can never happen, throws an Error that contains `what`.
void wait_until(const char* what, const std::function<bool()>& is_done);

}  // namespace mtl::emulated
