#include "base/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace mtl {

int resolve_threads(std::int64_t threads, int local_ranks) {
  if (threads > 0) return static_cast<int>(threads);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  int allowed = std::max(1, CPU_COUNT(&cores));
  if (local_ranks <= 1) return allowed;
  // If the launcher gave this rank only some of the cores, other ranks may share them (for example all ranks on a
  // socket). So never use more than an equal share of the machine's cores.
  int machine = std::max(allowed, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  return std::clamp(machine / local_ranks, 1, allowed);
}

}  // namespace mtl
