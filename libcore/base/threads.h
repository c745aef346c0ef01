// How many threads a tool uses.
#pragma once

#include <cstdint>

namespace mtl {

/// Returns `threads` if positive. Otherwise returns the number of cores this process may run on, but no more than an
/// equal share of the host's cores if `local_ranks` ranks run there.
int resolve_threads(std::int64_t threads, int local_ranks = 1);

}  // namespace mtl
