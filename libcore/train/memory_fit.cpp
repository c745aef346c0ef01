#include "train/memory_fit.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/files.h"
#include "ckpt/canonical.h"
#include "engine/rank_plans.h"
#include "train/trainer.h"

namespace mtl {

namespace {

constexpr std::size_t kSuggestions = 3;
constexpr std::int64_t kMostRanksFactor = 64;

/// Memory of one rank, and of all ranks of one host.
struct Need {
  std::uint64_t rank_bytes = 0, host_bytes = 0;
};

/// The plan of every rank of the world.
std::vector<const MemoryPlan*> plans_by_rank(const std::vector<RankPlan>& plans) {
  std::vector<const MemoryPlan*> out;
  for (const RankPlan& kind : plans) {
    for (int rank : kind.ranks) {
      out.resize(std::max<std::size_t>(out.size(), rank + 1));
      out[rank] = &kind.plan;
    }
  }
  return out;
}

std::uint64_t host_bytes(const std::vector<const MemoryPlan*>& plans, int first, int count) {
  std::uint64_t bytes = 0;
  const auto end = std::min<std::size_t>(plans.size(), first + count);
  for (std::size_t rank = first; rank < end; ++rank) bytes += plans[rank]->total_bytes();
  return bytes;
}

/// The plan of the rank on this host that needs most.
const MemoryPlan& largest_of(const std::vector<const MemoryPlan*>& plans, const HostRanks& host) {
  const auto begin = plans.begin() + host.first;
  const auto end = begin + std::min<std::ptrdiff_t>(host.count, plans.end() - begin);
  return **std::max_element(begin, end, [](auto* a, auto* b) { return a->total_bytes() < b->total_bytes(); });
}

bool fits(const Need& need, const MemoryLimit& limit) {
  return (limit.is_per_process ? need.rank_bytes : need.host_bytes) <= limit.bytes;
}

/// A run with other flags.
struct Setting {
  std::string flags;  // what changes on the command line
  TrainOptions options;
  GptConfig config;
  int ranks_per_host = 1;
};

/// Looks for settings that fit, those that change the run least first.
class Suggestions {
 public:
  Suggestions(const TrainOptions& options, const RunStart& start, const HostRanks& host,
              const std::vector<MemoryLimit>& limits)
      : limits_(limits),
        is_fresh_(!start.source),
        // Each rank of a cyclic run shuffles its own share of the samples: a resume needs the same groups of them.
        may_regroup_(!start.state || options.data.sampler_kind() != SamplerKind::cyclic),
        base_{"", options, start.config, host.count} {
    if (!base_.options.batch.varies()) base_.options.batch.global_batch_size = options.global_batch_size();
  }

  std::vector<std::string> find() {
    try_micro_batches(base_);
    try_sharing(base_);
    const Setting shared = with_all_sharing();
    try_setting(shared);
    const std::vector<Setting> starts{base_, shared};
    for (const Setting& from : starts) try_more_ranks(from);
    for (const Setting& from : starts) try_smaller_models(from);
    return lines_;
  }

 private:
  bool is_done() const { return lines_.size() == kSuggestions; }

  /// Plans it; keeps it when it is a valid command line that fits.
  bool try_setting(const Setting& setting) {
    if (is_done() || setting.flags.empty()) return false;
    bool is_valid = true;
    check_options(setting.options, [&](const std::string&, const std::string&) { is_valid = false; });
    if (!is_valid) return false;
    Need need;
    try {
      const std::vector<RankPlan> plans = plan_run(setting.options, setting.config);
      const auto by_rank = plans_by_rank(plans);
      need.rank_bytes = largest_plan(plans).plan.total_bytes();
      for (int first = 0; first < static_cast<int>(by_rank.size()); first += setting.ranks_per_host)
        need.host_bytes = std::max(need.host_bytes, host_bytes(by_rank, first, setting.ranks_per_host));
    } catch (const Error&) {
      return false;  // layers, heads or rows that cannot be divided so
    }
    if (!std::ranges::all_of(limits_, [&](const MemoryLimit& limit) { return fits(need, limit); })) return false;
    const std::string line = format("\n  %s: %s per rank", setting.flags.c_str(), human_bytes(need.rank_bytes).c_str());
    if (std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(line);
    return true;
  }

  /// The flags that keep the samples of a step when micro-batches or ranks change.
  std::string same_batch(const Setting& setting) const {
    return setting.options.batch.varies() ? "" : cat(" --global-batch-size ", setting.options.global_batch_size());
  }

  void try_micro_batches(const Setting& from) {
    if (!may_regroup_) return;
    for (std::int64_t size = from.options.batch.micro_batch_size / 2; size >= 1; --size) {
      if (from.options.batch.micro_batch_size % size != 0) continue;
      Setting setting = from;
      setting.options.batch.micro_batch_size = size;
      setting.flags += cat(from.flags.empty() ? "" : " ", "--micro-batch-size ", size, same_batch(from));
      if (try_setting(setting)) return;
    }
  }

  /// Shares more among the ranks that the run has.
  void try_sharing(const Setting& from) {
    for (const auto& share : {share_optimizer, share_sequence, share_schedule}) {
      Setting setting = from;
      share(setting);
      try_setting(setting);
    }
  }

  Setting with_all_sharing() const {
    Setting setting = base_;
    share_optimizer(setting);
    share_sequence(setting);
    share_schedule(setting);
    if (may_regroup_ && setting.options.batch.micro_batch_size > 1) {
      setting.options.batch.micro_batch_size = 1;
      add(setting, "--micro-batch-size 1" + same_batch(base_));
    }
    return setting;
  }

  static void add(Setting& setting, const std::string& flag) {
    setting.flags += cat(setting.flags.empty() ? "" : " ", flag);
  }
  static void share_optimizer(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.data() == 1 || std::exchange(parallel.distributed_optimizer, true)) return;
    add(setting, "--use-distributed-optimizer");
  }
  static void share_sequence(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.tensor == 1 || std::exchange(parallel.layout.sequence_parallel, true)) return;
    add(setting, "--sequence-parallel");
  }
  static void share_schedule(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.pipeline == 1 || std::exchange(parallel.schedule, "1f1b") == "1f1b") return;
    add(setting, "--pipeline-schedule 1f1b");
  }

  /// More ranks, on this host where they fit, else with as many on each host as now.
  void try_more_ranks(const Setting& from) {
    for (const char* axis : {"tensor", "pipeline", "data"}) {
      for (std::int64_t factor = 2; factor <= kMostRanksFactor; factor *= 2) {
        if (try_ranks(from, axis, factor)) break;
      }
    }
  }
  bool try_ranks(const Setting& from, const std::string& axis, std::int64_t factor) {
    Setting setting = from;
    ParallelOptions& parallel = setting.options.parallel;
    const bool is_one_host = parallel.world == from.ranks_per_host;
    parallel.world *= factor;
    if (axis == "tensor") {
      parallel.tensor *= factor;
      add(setting, cat("--tensor-model-parallel-size ", parallel.tensor));
    } else if (axis == "pipeline") {
      parallel.pipeline *= factor;
      add(setting, cat("--pipeline-model-parallel-size ", parallel.pipeline));
    } else {
      if (!may_regroup_) return false;
      share_optimizer(setting);
      if (from.flags.find("--global-batch-size") == std::string::npos && !setting.options.batch.varies())
        add(setting, same_batch(from).substr(1));
    }
    const std::string flags = setting.flags;
    if (is_one_host) {
      setting.ranks_per_host = static_cast<int>(parallel.world);
      setting.flags = cat(flags, " on ", parallel.world, " ranks");
      if (try_setting(setting)) return true;
    }
    setting.ranks_per_host = from.ranks_per_host;
    setting.flags = cat(flags, " on ", parallel.world, " ranks, ", from.ranks_per_host, " per host");
    return try_setting(setting);
  }

  /// Changes what is trained: only for a run that has not begun.
  void try_smaller_models(const Setting& from) {
    if (!is_fresh_) return;
    for (std::int64_t length = from.options.data.seq_length / 2; length >= 1; length /= 2) {
      Setting setting = from;
      setting.options.data.seq_length = length;
      add(setting, cat("--seq-length ", length));
      if (try_setting(setting)) break;
    }
    for (std::int64_t layers = from.config.num_layers / 2; layers >= 1; layers /= 2) {
      Setting setting = from;
      setting.config.num_layers = layers;
      add(setting, cat("--num-layers ", layers));
      if (try_setting(setting)) break;
    }
  }

  const std::vector<MemoryLimit>& limits_;
  bool is_fresh_, may_regroup_;
  Setting base_;
  std::vector<std::string> lines_;
};

/// Checkpoints in a folder, sound or not: each has its size on the disk.
std::int64_t count_checkpoints(const std::string& folder) {
  std::int64_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    count += starts_with(name, "iter_") && name.find('.') == std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace

HostRanks HostRanks::of(const RankEnvironment& launched) {
  return {std::max(0, launched.rank - launched.local_rank), std::max(1, launched.local_size)};
}

void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host,
                  const std::vector<MemoryLimit>& limits) {
  const std::vector<RankPlan> plans = plan_run(options, start.config);
  const auto by_rank = plans_by_rank(plans);
  const MemoryPlan& most = largest_of(by_rank, host);
  const Need need{most.total_bytes(), host_bytes(by_rank, host.first, host.count)};
  const MemoryLimit* least = nullptr;  // of those that the run is above
  for (const MemoryLimit& limit : limits) {
    if (!fits(need, limit) && (least == nullptr || limit.bytes < least->bytes)) least = &limit;
  }
  if (least == nullptr) return;
  auto human = [](std::uint64_t bytes) { return human_bytes(bytes); };
  std::vector<MemoryPart> parts = memory_parts(most);
  parts.pop_back();  // the total
  const auto largest = std::ranges::max_element(parts, {}, &MemoryPart::bytes);
  const std::string who = least->is_per_process || host.count == 1
                              ? cat("the run needs ", human(need.rank_bytes))
                              : cat("the run's ", host.count, " ranks on this host need ", human(need.host_bytes));
  std::string message = cat("not enough memory: ", who, ", and ", human(least->bytes), " are available (", least->name,
                            "); the largest part is ", largest->name, ", ", human(largest->bytes), " of ",
                            human(need.rank_bytes), host.count == 1 ? "" : " per rank");
  const std::vector<std::string> settings = Suggestions(options, start, host, limits).find();
  message += settings.empty() ? ". Nothing smaller was found that fits: train a smaller model, or on hosts with more "
                                "memory; --dry-run prints what a run needs"
                              : ". These fit:" + join(settings, "");
  fail(Exit::usage, message);
}

std::vector<MemoryLimit> less_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads) {
  // Measured on runs of 350 to 650 MiB: 45 MiB resident above the plan, and of address space what glibc reserves.
  constexpr std::uint64_t kMiB = 1 << 20, kRank = 48 * kMiB, kStack = 8 * kMiB, kArena = 64 * kMiB;
  for (MemoryLimit& limit : limits) {
    std::uint64_t overhead = kRank;
    if (limit.is_per_process) {
      overhead += static_cast<std::uint64_t>(threads) * (kStack + (limit.counts_reservations ? kArena : 0));
    } else {
      overhead *= static_cast<std::uint64_t>(ranks);
    }
    limit.bytes -= std::min(limit.bytes, overhead);
  }
  return limits;
}

SpaceNeed space_need(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                     std::int64_t present) {
  SpaceNeed need;
  const Precision precision = precision_of(options.precision);
  need.checkpoint_bytes =
      static_cast<std::uint64_t>(checkpoint_bytes(config, precision.main_params, AdamW::states(precision)));
  const std::int64_t end = options.train_iters();
  if (iteration >= end) return need;
  const std::int64_t interval = options.checkpoint.save_interval.value_or(end);
  // One at each multiple of the interval, and one at the end.
  need.checkpoints = end / interval - iteration / interval + (end % interval == 0 ? 0 : 1);
  // The oldest is deleted only when the newest is complete.
  if (options.checkpoint.keep_last > 0)
    need.checkpoints =
        std::min(need.checkpoints, std::max<std::int64_t>(1, options.checkpoint.keep_last + 1 - present));
  return need;
}

std::string check_space(const SpaceNeed& need, std::uint64_t free_bytes, const std::string& folder) {
  if (need.checkpoints == 0) return "";
  const std::string size = human_bytes(need.checkpoint_bytes);
  const std::string has = human_bytes(free_bytes) + " are free";
  const std::uint64_t room = free_bytes / std::max<std::uint64_t>(1, need.checkpoint_bytes);
  if (room == 0)
    fail(Exit::io, folder, ": a checkpoint takes ", size, ", and ", has, "; free some space or name another --save");
  if (room >= static_cast<std::uint64_t>(need.checkpoints)) return "";
  return cat(folder, ": the run adds ", need.checkpoints, " checkpoints of ", size, ", and ", has, ", enough for ",
             room, "; free some space, or save less with --keep-last or a larger --save-interval");
}

void check_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console) {
  const HostRanks host = HostRanks::of(launched);
  if (launched.rank != host.first) return;
  // Besides those that compute: one waits for signals, one reads data; MPI has a progress thread and three of its own.
  const std::int64_t threads = options.threads - 1 + (launched.world > 1 ? 6 : 2);
  check_memory(options, start, host, less_overhead(memory_limits(), host.count, threads));
  if (options.checkpoint.save.empty()) return;
  fs::path folder = fs::absolute(options.checkpoint.save);
  while (!file_exists(folder.string()) && folder.has_relative_path()) folder = folder.parent_path();
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return;  // some network file systems do not say
  const std::int64_t iteration = start.state ? start.state->iteration : 0;
  const SpaceNeed need = space_need(options, start.config, iteration, count_checkpoints(options.checkpoint.save));
  const std::string warning = check_space(need, space.available, "--save " + options.checkpoint.save);
  if (!warning.empty() && launched.rank == 0) console.warn(warning);
}

}  // namespace mtl
