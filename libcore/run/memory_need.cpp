#include "run/memory_need.h"

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
    const std::uint64_t files = plans[rank]->total_bytes(Space::file);
    need.host_file_bytes += files;
    need.rank_file_bytes = std::max(need.rank_file_bytes, files);
  }
  return need;
}

bool MemoryNeed::fits(const FitLimits& limits) const {
  return std::ranges::all_of(limits.host, [&](const MemoryLimit& limit) { return fits(limit); }) &&
         (!limits.gpu || gpu_bytes <= limits.gpu->bytes);
}

void MemoryNeed::enlarge(const MemoryNeed& other) {
  for (auto bytes : {&MemoryNeed::rank_bytes, &MemoryNeed::host_bytes, &MemoryNeed::gpu_bytes,
                     &MemoryNeed::rank_file_bytes, &MemoryNeed::host_file_bytes})
    this->*bytes = std::max(this->*bytes, other.*bytes);
}

std::string MemoryNeed::text() const {
  const std::string files = rank_file_bytes == 0 ? "" : cat(", ", human_bytes(rank_file_bytes), " in files");
  if (gpu_bytes == 0) return cat(human_bytes(rank_bytes), files, " per rank");
  return cat(human_bytes(gpu_bytes), " of GPU memory, ", human_bytes(rank_bytes), " of host memory", files,
             " per rank");
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
