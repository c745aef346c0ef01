#include "run/fitting_settings.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/str.h"
#include "run/layout_changes.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxSuggestions = 3;
constexpr std::int64_t kMaxRanksFactor = 64;

/// A changed run.
struct ChangedRun {
  TrainOptions options;
  GptConfig config;
  int ranks_per_host = 1;
};

/// Searches for settings that fit, starting with the smallest change to the run.
class Suggestions {
 public:
  Suggestions(const TrainOptions& options, const FitStart& start, const HostRanks& host, const FitLimits& limits)
      : limits_(limits),
        is_fresh_(!start.loads_weights),
        // Each rank in a cyclic run shuffles its own part of the samples, so a resumed run needs the same parts.
        may_regroup_(!start.resumes || options.data.sampler_kind() != SamplerKind::cyclic),
        base_{.options = options, .config = start.config, .ranks_per_host = host.count} {
    if (!base_.options.batch.varies()) base_.options.batch.global_batch_size = options.global_batch_size();
  }

  std::vector<std::string> find() {
    try_change(base_, [](ChangedRun& setting) { setting.options.checkpoint.async_save = false; });
    try_micro_batches();
    for (std::int64_t stage : {1, 2, 3}) try_change(base_, [&](ChangedRun& setting) { shard(setting, stage); });
    try_change(base_, share_sequence);
    try_change(base_, use_1f1b);
    for (Saving saving : kSavings) try_change(base_, [&](ChangedRun& setting) { save(setting.options, saving); });
    const ChangedRun shared = with_all_sharing();
    try_setting(shared);
    const ChangedRun all = with_everything(shared);
    try_setting(all);
    try_change(all, [](ChangedRun& setting) { save(setting.options, Saving::offload_to_files); });
    const std::vector<ChangedRun> starts{base_, shared, all};
    for (const ChangedRun& from : starts)
      if (try_bf16_gradients(from)) break;
    for (const ChangedRun& from : starts) try_more_ranks(from);
    for (const ChangedRun& from : starts) try_smaller_models(from);
    return lines_;
  }

 private:
  /// Returns the changes of the run on the command line.
  std::string flags_of(const ChangedRun& setting) const {
    std::vector<std::string> words = changed_flags(base_.options, setting.options);
    if (setting.config.num_layers != base_.config.num_layers)
      words.push_back(cat("--num-layers ", setting.config.num_layers));
    const std::int64_t world = setting.options.parallel.world;
    if (world == base_.options.parallel.world) return join(words, " ");
    const bool is_one_host = world == setting.ranks_per_host;
    words.push_back(
        cat("on ", count_of(world, "rank"), is_one_host ? "" : cat(", ", setting.ranks_per_host, " per host")));
    return join(words, " ");
  }

  /// Plans the setting. If it is valid and fits, adds it to the suggestions and returns true.
  bool try_setting(const ChangedRun& setting) {
    const std::string flags = flags_of(setting);
    if (lines_.size() == kMaxSuggestions || flags.empty() || !can_run(setting.options, setting.config)) return false;
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
    const std::string line = cat("\n  ", flags, ": ", need.text());
    if (std::ranges::find(lines_, line) == lines_.end()) lines_.push_back(line);
    return true;
  }

  template <class Change>
  bool try_change(ChangedRun setting, const Change& change) {
    change(setting);
    return try_setting(setting);
  }

  void try_micro_batches() {
    if (!may_regroup_) return;
    const std::int64_t largest = base_.options.batch.micro_batch_size;
    for (std::int64_t size = largest / 2; size >= 1; --size) {
      if (largest % size != 0) continue;
      if (try_change(base_, [&](ChangedRun& setting) { setting.options.batch.micro_batch_size = size; })) return;
    }
  }

  ChangedRun with_all_sharing() const {
    ChangedRun setting = base_;
    shard(setting, 3);
    share_sequence(setting);
    use_1f1b(setting);
    if (may_regroup_) setting.options.batch.micro_batch_size = 1;
    return setting;
  }

  /// Adds full recomputation and optimizer offloading, which do not change the results.
  static ChangedRun with_everything(ChangedRun setting) {
    save(setting.options, Saving::recompute_layers);
    save(setting.options, Saving::offload_optimizer);
    return setting;
  }

  /// Shards up to ZeRO stage `most` over the run's replicas, as far as the pipeline and its schedule allow.
  static void shard(ChangedRun& setting, std::int64_t most) {
    ParallelOptions& parallel = setting.options.parallel;
    for (std::int64_t stage : zero_stages(parallel))
      if (stage <= most && stage > parallel.zero()) set_zero_stage(parallel, stage);
  }
  static void share_sequence(ChangedRun& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.tensor > 1) parallel.sequence_parallel = true;
  }
  static void use_1f1b(ChangedRun& setting) {
    ParallelOptions& parallel = setting.options.parallel;
    if (parallel.pipeline > 1 && parallel.schedule == "gpipe") parallel.schedule = "1f1b";
  }

  /// Adds ranks: on the same host if they fit, otherwise on more hosts with the same number of ranks per host.
  void try_more_ranks(const ChangedRun& from) {
    for (const auto size : {&ParallelOptions::tensor, &ParallelOptions::pipeline, &ParallelOptions::world}) {
      for (std::int64_t factor = 2; factor <= kMaxRanksFactor; factor *= 2) {
        if (try_ranks(from, size, factor)) break;
      }
    }
  }
  /// Multiplies the ranks and this size; if it is the number of ranks, that of replicas.
  bool try_ranks(const ChangedRun& from, std::int64_t ParallelOptions::*size, std::int64_t factor) {
    ChangedRun setting = from;
    ParallelOptions& parallel = setting.options.parallel;
    const bool is_one_host = parallel.world == from.ranks_per_host;
    parallel.world *= factor;
    if (size != &ParallelOptions::world) {
      parallel.*size *= factor;
    } else {
      if (!may_regroup_) return false;
      shard(setting, 1);
    }
    if (is_one_host) {
      setting.ranks_per_host = static_cast<int>(parallel.world);
      if (try_setting(setting)) return true;
    }
    setting.ranks_per_host = from.ranks_per_host;
    return try_setting(setting);
  }

  /// Halves the main gradients of a run in bf16. Only for runs that have not started.
  bool try_bf16_gradients(const ChangedRun& from) {
    const Precision precision = precision_of(from.options.precision);
    if (!is_fresh_ || precision.compute != DType::bf16 || precision.main_grads != DType::f32) return false;
    return try_change(from, [](ChangedRun& setting) { setting.options.precision.grad_reduce_in_bf16 = true; });
  }

  /// Changes the model or the batches. Only for runs that have not started.
  void try_smaller_models(const ChangedRun& from) {
    if (!is_fresh_) return;
    if (const Precision precision = precision_of(from.options.precision); precision.compute == DType::f32) {
      try_change(from, [](ChangedRun& setting) {
        setting.options.precision = {};
        setting.options.precision.bf16 = true;
      });
    }
    for (std::int64_t length = from.options.data.seq_length / 2; length >= 1; length /= 2)
      if (try_change(from, [&](ChangedRun& setting) { setting.options.data.seq_length = length; })) break;
    for (std::int64_t layers = from.config.num_layers / 2; layers >= 1; layers /= 2)
      if (try_change(from, [&](ChangedRun& setting) { setting.config.num_layers = layers; })) break;
  }

  const FitLimits& limits_;
  bool is_fresh_, may_regroup_;
  ChangedRun base_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> find_fitting_settings(const TrainOptions& options, const FitStart& start,
                                               const HostRanks& host, const FitLimits& limits) {
  return Suggestions(options, start, host, limits).find();
}

}  // namespace mtl
