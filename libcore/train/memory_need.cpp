#include "train/memory_need.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

HostRanks HostRanks::of(const RankEnvironment& launched) {
  return {.first = std::max(0, launched.rank - launched.local_rank), .count = std::max(1, launched.local_size)};
}

MemoryNeed MemoryNeed::of(const std::vector<const MemoryPlan*>& plans, const HostRanks& host) {
  MemoryNeed need;
  const auto end = std::min<std::size_t>(plans.size(), host.first + host.count);
  for (std::size_t rank = host.first; rank < end; ++rank) {
    const std::uint64_t own = plans[rank]->total_bytes(Space::host);
    need.host_bytes += own;
    need.rank_bytes = std::max(need.rank_bytes, own);
    need.gpu_bytes = std::max<std::uint64_t>(need.gpu_bytes, plans[rank]->total_bytes(Space::device));
  }
  return need;
}

bool MemoryNeed::fits(const FitLimits& limits) const {
  return std::ranges::all_of(limits.host, [&](const MemoryLimit& limit) { return fits(limit); }) &&
         (!limits.gpu || gpu_bytes <= limits.gpu->bytes);
}

std::string MemoryNeed::text() const {
  if (gpu_bytes == 0) return human_bytes(rank_bytes) + " per rank";
  return cat(human_bytes(gpu_bytes), " of GPU memory, ", human_bytes(rank_bytes), " of host memory per rank");
}

std::vector<const MemoryPlan*> plans_by_rank(const std::vector<RankPlan>& plans) {
  std::vector<const MemoryPlan*> out;
  for (const RankPlan& plan : plans) {
    for (int rank : plan.ranks) {
      out.resize(std::max<std::size_t>(out.size(), rank + 1));
      out[rank] = &plan.plan;
    }
  }
  return out;
}

}  // namespace mtl
