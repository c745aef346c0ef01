// The number of threads that a tool uses.
#pragma once

#include <cstdint>

namespace mtl {

/// `threads`, or for 0 all cores that this process may run on, divided among the ranks of this host unless their
/// launcher already gave each its own.
int resolve_threads(std::int64_t threads, int local_ranks = 1);

}  // namespace mtl
