#include "base/threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/count_of.h"
#include "base/str.h"

namespace mtl {

namespace {

/// Returns the number of cores in this process's affinity mask, or 1 if it cannot be read.
int cores_in_mask() {
  constexpr int kMaxCores = 1 << 20;
  for (int cores = CPU_SETSIZE; cores <= kMaxCores; cores *= 2) {  // the kernel's mask may be larger than a cpu_set_t
    const auto free_mask = [](cpu_set_t* mask) { CPU_FREE(mask); };
    const std::unique_ptr<cpu_set_t, decltype(free_mask)> mask(CPU_ALLOC(cores), free_mask);
    const std::size_t bytes = CPU_ALLOC_SIZE(cores);
    if (mask != nullptr && ::sched_getaffinity(0, bytes, mask.get()) == 0)
      return std::max(1, CPU_COUNT_S(bytes, mask.get()));
  }
  return 1;
}

/// Returns a cgroup's quota in cores, or nullopt if it has none.
std::optional<double> quota_of(const Cgroup& group) {
  const auto read = [&](const char* file) { return read_kernel_file(cat(group.folder, "/", file)); };
  const std::string text =
      group.version == 1 ? cat(read("cpu.cfs_quota_us"), " ", read("cpu.cfs_period_us")) : read("cpu.max");
  const std::vector<std::string> words = split(text, ' ');
  if (words.size() != 2) return std::nullopt;
  const auto of = parse_int(words[0]), per = parse_int(words[1]);  // no quota: "-1" or "max"
  if (!of || !per || *of <= 0 || *per <= 0) return std::nullopt;
  return double(*of) / double(*per);
}

/// Returns the number of cores for one of `local_ranks` ranks on this host.
int share_of_cores(int local_ranks, const std::optional<CpuQuota>& quota) {
  const int allowed = cores_in_mask();
  // If the launcher gave this rank only some of the cores, other ranks may share them (for example all ranks on a
  // socket). So never use more than an equal share of the machine's cores. A quota is usually a container's or a job's,
  // so all ranks share it, too.
  int machine = std::max(allowed, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  if (quota && quota->cores < machine) machine = static_cast<int>(std::ceil(quota->cores));
  return std::clamp(machine / std::max(1, local_ranks), 1, allowed);
}

}  // namespace

std::optional<CpuQuota> cpu_quota(const KernelFiles& files) {
  std::optional<CpuQuota> smallest;
  for (const Cgroup& group : own_cgroups("cpu", files)) {
    const std::optional<double> cores = quota_of(group);
    if (!cores || (smallest && smallest->cores <= *cores)) continue;
    const char* file = group.version == 1 ? "cpu.cfs_quota_us" : "cpu.max";
    smallest = {*cores, cat("the CPU quota of cgroup ", group.name, " (", file, ")")};
  }
  return smallest;
}

int resolve_threads(std::int64_t threads, int local_ranks, const KernelFiles& files) {
  return threads > 0 ? static_cast<int>(threads) : share_of_cores(local_ranks, cpu_quota(files));
}

std::string describe_quota(int local_ranks, const KernelFiles& files) {
  const std::optional<CpuQuota> quota = cpu_quota(files);
  const int threads = share_of_cores(local_ranks, quota);
  if (threads == share_of_cores(local_ranks, std::nullopt)) return "";
  return cat(count_of(threads, "thread"), local_ranks > 1 ? " per rank" : "", ", because ", quota->name, " is ",
             quota->cores, quota->cores == 1 ? " core" : " cores");
}

}  // namespace mtl
