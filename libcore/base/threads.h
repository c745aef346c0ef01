// The number of threads that a tool uses.
#pragma once

#include <cstdint>

namespace mtl {

/// Returns `threads` if `threads` is positive. Otherwise returns the number of cores that this process may run on, but
/// at most an equal share of the host's cores if `local_ranks` ranks run on the host.
int resolve_threads(std::int64_t threads, int local_ranks = 1);

}  // namespace mtl
