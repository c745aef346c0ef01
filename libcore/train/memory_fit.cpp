#include "train/memory_fit.h"

#include <algorithm>
#include <map>

#include "base/count_of.h"
#include "run/fitting_settings.h"
#include "run/run_plan.h"
#include "train/disk_fit.h"

namespace mtl {

namespace {

/// A limit that a run exceeds.
struct Excess {
  const MemoryLimit* limit = nullptr;
  Space space = Space::host;
};

/// Returns the GPU limit if the run exceeds it. Otherwise returns the smallest host limit that the run exceeds, if any.
Excess find_excess(const MemoryNeed& need, const FitLimits& limits) {
  if (limits.gpu && need.gpu_bytes > limits.gpu->bytes) return {&*limits.gpu, Space::device};
  Excess out;
  for (const MemoryLimit& limit : limits.host) {
    if (!need.fits(limit) && (out.limit == nullptr || limit.bytes < out.limit->bytes)) out.limit = &limit;
  }
  return out;
}

/// Returns the plan for the rank on this host that needs the most memory in `space`.
const MemoryPlan& largest_of(const std::vector<const MemoryPlan*>& plans, const HostRanks& host, Space space) {
  const auto begin = plans.begin() + host.first;
  const auto end = begin + std::min<std::ptrdiff_t>(host.count, plans.end() - begin);
  return **std::max_element(begin, end,
                            [&](auto* a, auto* b) { return a->total_bytes(space) < b->total_bytes(space); });
}

/// Describes the largest memory category in `space`.
std::string largest_part(const MemoryPlan& plan, Space space) {
  std::vector<MemoryPart> parts = memory_parts(plan, {space});
  const MemoryPart total = parts.back();
  parts.pop_back();
  const auto largest = std::ranges::max_element(parts, {}, &MemoryPart::bytes);
  return cat("the largest part is ", largest->name, ", ", human_bytes(largest->bytes), " of ",
             human_bytes(total.bytes));
}

}  // namespace

void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits) {
  const std::vector<RankPlan> plans = plan_run(options, start.config);
  const auto by_rank = plans_by_rank(plans);
  const MemoryNeed need = MemoryNeed::of(by_rank, host);
  const Excess excess = find_excess(need, limits);
  if (excess.limit == nullptr) return;
  std::string who;
  if (excess.space == Space::device)
    who = cat("the run needs ", human_bytes(need.gpu_bytes), " on ", host.count == 1 ? "a GPU" : "each GPU");
  else if (excess.limit->is_per_process || host.count == 1)
    who = cat(host.count < options.parallel.world && host.count == 1 ? cat("rank ", host.first) : "the run", " needs ",
              human_bytes(need.rank_bytes),
              need.reserved(*excess.limit) == 0 ? ""
                                                : cat(" and ", human_bytes(need.reserved(*excess.limit)),
                                                      " of addresses for the files of --offload-optimizer"));
  else
    who = cat("the run's ", host.count, " ranks on this host need ", human_bytes(need.host_bytes));
  std::string message =
      cat("not enough memory: ", who, ", but only ", human_bytes(excess.limit->bytes), " is available (",
          excess.limit->name, "); ", largest_part(largest_of(by_rank, host, excess.space), excess.space),
          host.count == 1 ? "" : " per rank");
  const std::vector<std::string> settings = find_fitting_settings(
      options, {.config = start.config, .loads_weights = start.source.has_value(), .resumes = start.state.has_value()},
      host, limits);
  message += settings.empty()
                 ? ". No smaller setting was found that fits: train a smaller model, or provide more memory; "
                   "--dry-run prints what a run needs"
                 : ". These fit:" + join(settings, "");
  fail(Exit::usage, message);
}

std::vector<MemoryLimit> subtract_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads) {
  // Measured on runs of 350 to 650 MiB: resident memory exceeds the plan by 45 MiB. glibc reserves address space for
  // each arena.
  constexpr std::uint64_t kMiB = 1 << 20, kRank = 48 * kMiB, kStack = 8 * kMiB, kArena = 64 * kMiB;
  for (MemoryLimit& limit : limits) {
    std::uint64_t overhead = kRank;
    if (limit.is_per_process) {
      overhead += static_cast<std::uint64_t>(threads) * (kStack + (limit.counts_reservations ? kArena : 0));
    } else {
      overhead *= static_cast<std::uint64_t>(ranks);
    }
    limit.name +=
        cat(": ", human_bytes(limit.bytes), " are free, and about ", human_bytes(overhead), " are for libraries",
            limit.is_per_process ? cat(" and ", count_of(threads, "more thread"))
            : ranks > 1          ? cat(" of ", ranks, " ranks")
                                 : "");
    limit.bytes -= std::min(limit.bytes, overhead);
  }
  return limits;
}

MemoryLimit gpu_limit(const CudaMemory& memory, const std::string& gpu) {
  return {memory.free - std::min(memory.free, kCudaLibraryBytes),
          cat(human_bytes(memory.free), " of the ", human_bytes(memory.total), " of ", gpu, " are free, and about ",
              human_bytes(kCudaLibraryBytes), " are for CUDA's libraries"),
          true};
}

MemoryLimit gpu_limit(double gib) {
  constexpr std::size_t kOverhead = kCudaContextBytes + kCudaLibraryBytes;
  const auto bytes = static_cast<std::size_t>(gib * (1 << 30));
  return {bytes - std::min(bytes, kOverhead),
          cat("of ", human_bytes(bytes), ", about ", human_bytes(kOverhead), " are for CUDA and its libraries"), true};
}

namespace {

/// Returns how many threads a rank has at most, besides its first.
std::int64_t more_threads(const TrainOptions& options) {
  std::int64_t threads = options.threads - 1;          // compute (Stream)
  threads += 1;                                        // waits for signals (SignalRequests)
  threads += options.batch.validates() ? 2 : 1;        // read the next batches, also those of validation (DataFeed)
  threads += options.checkpoint.save.empty() ? 0 : 1;  // keeps the lock of --save, on rank 0 (OutputLock)
  threads += options.checkpoint.saves_behind_steps();  // writes checkpoints (PendingSave)
  threads += options.parallel.offload_optimizer.empty() ? 0 : 2;  // read and write the state's files (FileRing)
  threads += options.parallel.world == 1 ? 0 : 4;  // progress of messages (MpiProgress), and three of MPI
  return threads;
}

/// Returns the ranks of this host that share a limit. `groups` is as in check_memory_fit().
HostRanks sharers_of(const MemoryLimit& limit, const RankEnvironment& launched,
                     const std::vector<std::string>& groups) {
  const HostRanks host = HostRanks::of(launched);
  if (!limit.is_per_process && limit.group.empty()) return host;
  HostRanks out{.first = launched.rank, .count = 0};
  const int end = std::min(host.first + host.count, static_cast<int>(groups.size()));
  for (int rank = host.first; rank < end && !limit.is_per_process; ++rank) {
    const std::vector<std::string> own = split(groups[rank], '\n');
    if (std::ranges::find(own, limit.group) != own.end() && out.count++ == 0) out.first = rank;
  }
  out.count = std::max(1, out.count);
  return out;
}

}  // namespace

std::string memory_groups(const std::vector<MemoryLimit>& limits) {
  std::string out;
  for (const MemoryLimit& limit : limits)
    if (!limit.group.empty()) out += limit.group + "\n";
  return out;
}

void check_memory_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched,
                      const std::vector<MemoryLimit>& limits, const std::vector<std::string>& groups) {
  std::map<std::pair<int, int>, std::vector<MemoryLimit>> by_ranks;  // first rank and number of ranks
  if (launched.world == 1) by_ranks[{0, 1}];                         // whose GPU is a limit, too
  for (const MemoryLimit& limit : limits) {
    const HostRanks ranks = sharers_of(limit, launched, groups);
    if (ranks.first == launched.rank) by_ranks[{ranks.first, ranks.count}].push_back(limit);
  }
  for (const auto& [ranks, shared] : by_ranks) {
    FitLimits of_ranks{.host_of = [&](const TrainOptions& changed, int count) {
      return subtract_overhead(shared, count, more_threads(changed));
    }};
    of_ranks.host = of_ranks.host_of(options, ranks.second);
    if (options.device == Device::cuda && launched.world == 1) of_ranks.gpu = gpu_limit(cuda_memory(), "the GPU");
    check_memory(options, start, {ranks.first, ranks.second}, of_ranks);
  }
}

void check_disks(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched,
                 Console& console) {
  const std::int64_t iteration = start.state ? start.state->iteration : 0;
  check_shard_size(options, start.config, iteration, launched.rank);
  const HostRanks host = HostRanks::of(launched);
  if (launched.rank != host.first) return;
  std::vector<std::string> warnings;
  std::uint64_t state_bytes = 0;
  if (const std::string& folder = options.parallel.offload_optimizer; !folder.empty()) {
    const std::vector<RankPlan> plans = plan_run(options, start.config);
    state_bytes = MemoryNeed::of(plans_by_rank(plans), host).host_file_bytes;
    warnings.push_back(check_offload_folder(folder, state_bytes));
  }
  if (options.writes_save()) warnings.push_back(check_save_folder(options, start.config, iteration, state_bytes));
  for (const std::string& warning : warnings)
    if (!warning.empty() && launched.rank == 0) console.warn(warning);
}

}  // namespace mtl
