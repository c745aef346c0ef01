#include "train/fitting_settings.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/count_of.h"
#include "train/run_plan.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxSuggestions = 3;
constexpr std::int64_t kMaxRanksFactor = 64;

/// A run with changed flags.
struct Setting {
  std::string flags;  // the changes on the command line
  TrainOptions options;
  GptConfig config;
  int ranks_per_host = 1;
};

/// Searches for settings that fit, starting with the smallest change to the run.
class Suggestions {
 public:
  Suggestions(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits)
      : limits_(limits),
        is_fresh_(!start.source),
        // Each rank in a cyclic run shuffles its own part of the samples, so a resumed run needs the same parts.
        may_regroup_(!start.state || options.data.sampler_kind() != SamplerKind::cyclic),
        base_{.flags = "", .options = options, .config = start.config, .ranks_per_host = host.count} {
    if (!base_.options.batch.varies()) base_.options.batch.global_batch_size = options.global_batch_size();
  }

  std::vector<std::string> find() {
    try_micro_batches(base_);
    try_sharing(base_);
    try_each(base_, {recompute_attention, recompute_layers, offload_optimizer, offload_activations, offload_to_files});
    const Setting shared = with_all_sharing();
    try_setting(shared);
    const Setting all = with_everything(shared);
    try_setting(all);
    Setting in_files = all;
    offload_to_files(in_files);
    try_setting(in_files);
    const std::vector<Setting> starts{base_, shared, all};
    for (const Setting& from : starts) try_more_ranks(from);
    for (const Setting& from : starts) try_smaller_models(from);
    return lines_;
  }

 private:
  using Change = void (*)(Setting&);
  bool is_done() const { return lines_.size() == kMaxSuggestions; }

  /// Plans the setting. If it is valid and fits, adds it to the suggestions and returns true.
  bool try_setting(const Setting& setting) {
    if (is_done() || setting.flags.empty()) return false;
    bool is_valid = true;
    check_options(setting.options, [&](const std::string&, const std::string&) { is_valid = false; });
    if (!is_valid) return false;
    MemoryNeed need;
    try {
      const std::vector<RankPlan> plans = plan_run(setting.options, setting.config);
      const auto by_rank = plans_by_rank(plans);
      for (int first = 0; first < static_cast<int>(by_rank.size()); first += setting.ranks_per_host)
        need.enlarge(MemoryNeed::of(by_rank, {.first = first, .count = setting.ranks_per_host}));
    } catch (const Error&) {
      return false;  // the layers, heads or rows cannot be divided this way
    }
    if (!need.fits(limits_)) return false;
    const std::string line = cat("\n  ", setting.flags, ": ", need.text());
    if (std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(line);
    return true;
  }

  /// Returns the flag that keeps the samples per step constant when micro-batches or ranks change.
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

  void try_each(const Setting& from, std::initializer_list<Change> changes) {
    for (Change change : changes) {
      Setting setting = from;
      change(setting);
      if (setting.flags != from.flags) try_setting(setting);
    }
  }

  /// Tries to shard more state over the run's ranks, and the 1F1B schedule.
  void try_sharing(const Setting& from) {
    try_each(from, {share_optimizer, share_gradients, share_weights, share_sequence, share_schedule});
  }

  Setting with_all_sharing() const {
    Setting setting = base_;
    share_weights(setting);
    share_sequence(setting);
    share_schedule(setting);
    if (may_regroup_ && setting.options.batch.micro_batch_size > 1) {
      setting.options.batch.micro_batch_size = 1;
      add(setting, "--micro-batch-size 1" + same_batch(base_));
    }
    return setting;
  }

  /// Adds full recomputation and optimizer offloading, which do not change the results.
  Setting with_everything(Setting setting) const {
    recompute_layers(setting);
    offload_optimizer(setting);
    return setting;
  }

  static void add(Setting& setting, const std::string& flag) {
    setting.flags += cat(setting.flags.empty() ? "" : " ", flag);
  }
  static void share_optimizer(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.replicas() == 1 || std::exchange(parallel.distributed_optimizer, true)) return;
    add(setting, "--use-distributed-optimizer");
  }
  /// Not with schedules that leave weight gradients for later.
  static void share_gradients(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.schedule && parallel.schedule->starts_with("zb")) return share_optimizer(setting);
    if (parallel.replicas() == 1 || parallel.zero_stage >= 2) return;
    parallel.zero_stage = 2;
    parallel.distributed_optimizer = true;
    add(setting, "--zero-stage 2");
  }
  /// Not with a pipeline.
  static void share_weights(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.pipeline > 1) return share_gradients(setting);
    if (parallel.replicas() == 1 || std::exchange(parallel.zero_stage, 3) == 3) return;
    parallel.distributed_optimizer = true;
    add(setting, "--zero-stage 3");
  }
  static void share_sequence(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.tensor == 1 || std::exchange(parallel.layout.sequence_parallel, true)) return;
    add(setting, "--sequence-parallel");
  }
  static void share_schedule(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.pipeline == 1 || parallel.schedule != "gpipe") return;
    parallel.schedule = "1f1b";
    add(setting, "--pipeline-schedule 1f1b");
  }

  // Recomputation costs time; results are bit-identical.
  static bool recomputes(const Setting& setting) { return recompute_of(setting.options.parallel) != Recompute{}; }
  static void recompute_attention(Setting& setting) {
    if (recomputes(setting)) return;
    setting.options.parallel.recompute_granularity = "selective";
    add(setting, "--recompute-granularity selective");
  }
  static void recompute_layers(Setting& setting) {
    if (recomputes(setting) || setting.options.parallel.cpu_offloading) return;
    setting.options.parallel.recompute_granularity = "full";
    setting.options.parallel.recompute_method = "uniform";
    add(setting, "--recompute-granularity full --recompute-method uniform");
  }

  static void offload_optimizer(Setting& setting) {
    if (setting.options.device != Device::cuda || !setting.options.parallel.offload_optimizer.empty()) return;
    if (!std::exchange(setting.options.parallel.optimizer_cpu_offload, true)) add(setting, "--optimizer-cpu-offload");
  }

  static void offload_to_files(Setting& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (!parallel.offload_optimizer.empty()) return;
    parallel.offload_optimizer = "DIR";
    const std::string in_memory = "--optimizer-cpu-offload";
    const std::size_t at = setting.flags.find(in_memory);
    if (!std::exchange(parallel.optimizer_cpu_offload, false))
      add(setting, "--offload-optimizer DIR");
    else if (at != std::string::npos)
      setting.flags.replace(at, in_memory.size(), "--offload-optimizer DIR");
    else
      add(setting, "--offload-optimizer DIR instead of " + in_memory);
  }

  static void offload_activations(Setting& setting) {
    if (setting.options.device != Device::cuda) return;
    if (recompute_of(setting.options.parallel).granularity == Recompute::Granularity::full) return;
    if (!std::exchange(setting.options.parallel.cpu_offloading, true)) add(setting, "--cpu-offloading");
  }

  /// Adds ranks: on the same host if they fit, otherwise on more hosts with the same number of ranks per host.
  void try_more_ranks(const Setting& from) {
    for (const char* axis : {"tensor", "pipeline", "data"}) {
      for (std::int64_t factor = 2; factor <= kMaxRanksFactor; factor *= 2) {
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
      setting.flags = cat(flags, " on ", count_of(parallel.world, "rank"));
      if (try_setting(setting)) return true;
    }
    setting.ranks_per_host = from.ranks_per_host;
    setting.flags = cat(flags, " on ", count_of(parallel.world, "rank"), ", ", from.ranks_per_host, " per host");
    return try_setting(setting);
  }

  /// Changes the model or the batches. Only for runs that have not started.
  void try_smaller_models(const Setting& from) {
    if (!is_fresh_) return;
    if (const Precision precision = precision_of(from.options.precision); precision.compute == DType::f32) {
      Setting setting = from;
      setting.options.precision = {};
      setting.options.precision.bf16 = true;
      add(setting, "--bf16");
      try_setting(setting);
    }
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

  const FitLimits& limits_;
  bool is_fresh_, may_regroup_;
  Setting base_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> find_fitting_settings(const TrainOptions& options, const RunStart& start,
                                               const HostRanks& host, const FitLimits& limits) {
  return Suggestions(options, start, host, limits).find();
}

}  // namespace mtl
