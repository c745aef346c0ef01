// The number of threads that a tool uses.
#pragma once

#include <cstdint>

namespace mtl {

/// Returns `threads` if it is positive. Otherwise returns the number of cores that this process may run on, but at most
/// its equal share of the host's cores among the host's ranks.
int resolve_threads(std::int64_t threads, int local_ranks = 1);

}  // namespace mtl
