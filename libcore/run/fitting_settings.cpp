#include "run/fitting_settings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>

#include "base/count_of.h"
#include "base/str.h"
#include "layout/schedule.h"
#include "run/layout_changes.h"
#include "run/layout_space.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxSuggestions = 3;
constexpr int kMaxDoublings = 6;  // of the ranks
/// Once this many layouts on the run's ranks are planned, most of them in 0.3 to 15 ms each, what saves the most on
/// each grid is planned, and no other.
constexpr int kMostPlanned = 300;

/// A changed run.
struct ChangedRun {
  TrainOptions options;
  GptConfig config;
  int ranks_per_host = 1;
};

/// A change that can be made several times, halving something each time.
struct Halving {
  std::function<bool(ChangedRun& run, int times)> change;  // returns false if it cannot
  int most = 1;                                            // times
};

/// Axes of the space (layout_space.h), a bit for each. Of two changes, that of the lower bits is suggested first.
using Axes = unsigned;
constexpr Axes kMicroBatch = 1, kZero = 2, kSequence = 4, kSchedule = 8, kSplit = 16, kFirstSaving = 32;
constexpr Axes kTensor = kFirstSaving << kSavings.size(), kContext = 2 * kTensor, kPipeline = 4 * kTensor;
constexpr Axes kGrid = kTensor | kContext | kPipeline;

/// A layout on the run's ranks.
struct LayoutChange {
  Axes axes = 0;  // in which it differs from the run
  LayoutChoice to;

  std::array<int, 3> grid() const { return {to.tensor, to.context, to.pipeline}; }
};

/// Searches for settings that fit, starting with the smallest change to the run.
///
/// On the run's ranks, it searches the layouts of layout_space.h by the axes in which they differ from the run: fewer
/// axes first, then the axes of lower bits, then the nearest values. Of layouts that change one axis, all are planned
/// until one fits. Of the others, what saves the most on a grid is planned first, and of what changes the same axes the
/// last; whatever saves no more than a layout that does not fit is not planned, and after kMostPlanned the search is
/// cut short. A schedule changes together with other axes only to 1f1b, which keeps the fewest micro-batches.
class Suggestions {
 public:
  Suggestions(const TrainOptions& options, const FitStart& start, const HostRanks& host, const FitLimits& limits)
      : limits_(limits),
        is_fresh_(!start.loads_weights),
        // Each rank in a cyclic run shuffles its own part of the samples, so a resumed run needs the same parts.
        may_regroup_(!start.resumes || options.data.sampler_kind() != SamplerKind::cyclic),
        given_(options),
        base_{.options = options, .config = start.config, .ranks_per_host = host.count} {
    if (!base_.options.batch.varies()) base_.options.batch.global_batch_size = options.global_batch_size();
    const ParallelOptions& parallel = options.parallel;
    own_ = {.tensor = static_cast<int>(parallel.tensor),
            .context = static_cast<int>(parallel.context),
            .pipeline = static_cast<int>(parallel.pipeline),
            .sequence_parallel = parallel.sequence_parallel,
            .is_balanced = parallel.pipeline_split == "balanced",
            .schedule = parallel.schedule_kind(start.config.num_layers),
            .chunks = static_cast<int>(parallel.chunks(start.config.num_layers)),
            .zero = static_cast<int>(parallel.zero()),
            .micro_batch = options.batch.micro_batch_size};
    // Files need addresses, and buffers in host memory.
    if (options.device == Device::cpu || std::ranges::any_of(limits.host, &MemoryLimit::counts_reservations))
      moves_ |= bit(Saving::offload_to_files);
  }

  std::vector<std::string> find() {
    try_halvings({base_},
                 {{[](ChangedRun& run, int) { return std::exchange(run.options.checkpoint.async_save, false); }}});
    list_changes();
    try_changes();
    const LayoutChoice shared = with_all_sharing();
    LayoutChoice all = shared;
    all.savings = bit(Saving::recompute_layers) | bit(Saving::offload_optimizer);
    std::vector<ChangedRun> starts{base_};
    for (const LayoutChoice& each : {shared, all})
      if (!is_larger(changed_axes(each))) starts.push_back(changed_to(each));
    if (is_fresh_) try_halvings(starts, {{halve_gradients}});
    try_halvings(starts, {more_ranks(&ParallelOptions::tensor), more_ranks(&ParallelOptions::pipeline),
                          more_ranks(&ParallelOptions::world)});
    if (is_fresh_)
      try_halvings(starts,
                   {{compute_in_bf16},
                    {[](ChangedRun& run, int times) { return (run.options.data.seq_length >>= times) > 0; }, 62},
                    {[](ChangedRun& run, int times) { return (run.config.num_layers >>= times) > 0; }, 62}});
    return lines_;
  }

 private:
  /// Lists the layouts on the run's ranks that may save memory, in the order of suggestions.
  void list_changes() {
    for (LayoutChoice choice : layout_choices(base_.options, base_.config, true, {})) {
      const std::int64_t replicas = choice.replicas(base_.options.parallel.world);
      const int most_zero = choice.pipeline > 1 ? 2 : 3;
      // What has no effect stays as it is.
      if (choice.tensor == 1) choice.sequence_parallel = own_.sequence_parallel;
      if (choice.pipeline == 1) {
        choice.is_balanced = own_.is_balanced;
        const bool forbids_deferring = choice.zero > 1 || choice.has(Saving::offload_activations);
        if (!forbids_deferring || !defers_weights(own_.schedule)) {
          choice.schedule = own_.schedule;
          choice.chunks = own_.chunks;
        }
      }
      if (replicas == 1 && own_.zero <= most_zero) choice.zero = own_.zero;
      if (choice.sequence_parallel < own_.sequence_parallel || choice.micro_batch > own_.micro_batch) continue;
      if (replicas > 1 && choice.zero < std::min(own_.zero, most_zero)) continue;
      const bool regroups = choice.micro_batch != own_.micro_batch || groups(choice) != groups(own_);
      const Axes axes = changed_axes(choice);
      if (axes == 0 || (regroups && !may_regroup_)) continue;
      if (std::has_single_bit(axes) || choice.schedule == ScheduleKind::one_forward_one_backward ||
          (choice.schedule == own_.schedule && choice.chunks == own_.chunks))
        changes_.push_back({axes, choice});
    }
    const auto ratio = [](int one, int other) { return double(std::max(one, other)) / std::min(one, other); };
    std::ranges::stable_sort(changes_, {}, [&](const LayoutChange& change) {
      const LayoutChoice& to = change.to;
      const double distance =
          ratio(to.tensor, own_.tensor) * ratio(to.context, own_.context) * ratio(to.pipeline, own_.pipeline);
      return std::tuple(std::popcount(change.axes), change.axes, distance, -to.tensor, -to.context, -to.pipeline,
                        -to.micro_batch, to.zero);
    });
  }
  static int groups(const LayoutChoice& choice) { return choice.tensor * choice.context * choice.pipeline; }

  Axes changed_axes(const LayoutChoice& to) const {
    const bool has_own_schedule = to.schedule == own_.schedule;
    Axes out = to.savings * kFirstSaving;
    const auto add = [&](Axes axis, bool differs) { out |= differs ? axis : 0; };
    add(kMicroBatch, to.micro_batch != own_.micro_batch);
    add(kZero, to.zero != own_.zero);
    add(kSequence, to.sequence_parallel != own_.sequence_parallel);
    add(kSchedule, !has_own_schedule);
    add(kSplit, to.is_balanced != own_.is_balanced || (has_own_schedule && to.chunks != own_.chunks));
    add(kTensor, to.tensor != own_.tensor);
    add(kContext, to.context != own_.context);
    add(kPipeline, to.pipeline != own_.pipeline);
    return out;
  }

  /// Returns the run with another layout. What it says of other axes stays.
  ChangedRun changed_to(const LayoutChoice& to) const {
    ChangedRun out = base_;
    out.options = to.options(base_.options);
    ParallelOptions& parallel = out.options.parallel;
    const ParallelOptions& own = base_.options.parallel;
    const Axes axes = changed_axes(to);
    const auto keep = [&](Axes unless, auto... members) {
      if ((axes & unless) == 0) ((parallel.*members = own.*members), ...);
    };
    using Options = ParallelOptions;
    keep(0, &Options::overlap_grad_reduce, &Options::overlap_param_gather);
    keep(kZero, &Options::zero_stage, &Options::distributed_optimizer);
    keep(kSchedule, &Options::schedule);
    keep(kSchedule | kSplit, &Options::virtual_stages, &Options::layers_per_virtual_stage);
    keep(kSchedule | kSplit | kPipeline, &Options::layer_layout, &Options::split);
    return out;
  }

  /// Tries what changes the same axes on the same grid together. Skips larger changes than those that fit.
  void try_changes() {
    for (auto first = changes_.begin(); first != changes_.end() && lines_.size() < kMaxSuggestions;) {
      if (planned_ >= kMostPlanned) return try_most_saving();
      const auto last = std::find_if(first, changes_.end(), [&](const LayoutChange& other) {
        return other.axes != first->axes || other.grid() != first->grid();
      });
      if (!is_larger(first->axes) && try_alike({first, last})) suggested_.push_back(first->axes);
      first = last;
    }
  }

  /// Where the search was cut short: on each grid, what saves the most, without what is not needed.
  void try_most_saving() {
    std::vector<LayoutChange> most;
    for (const LayoutChange& each : changes_ | std::views::reverse)
      if (std::ranges::find(most, each.grid(), &LayoutChange::grid) == most.end()) most.push_back(each);
    std::ranges::stable_sort(most, {}, [](const LayoutChange& each) { return std::popcount(each.axes & kGrid); });
    for (LayoutChange& change : most) {
      if (lines_.size() == kMaxSuggestions || !fits(change)) continue;
      const auto revert = [&](const auto& what) {
        LayoutChange less = change;
        what(less.to);
        if (less.to != change.to && fits(less)) change = less;
      };
      for (Saving saving : kSavings | std::views::reverse)
        revert([&](LayoutChoice& to) { to.savings &= ~bit(saving); });
      revert([&](LayoutChoice& to) { to.micro_batch = own_.micro_batch; });
      revert([&](LayoutChoice& to) { to.zero = own_.zero; });
      revert([&](LayoutChoice& to) { to.sequence_parallel = own_.sequence_parallel; });
      change.axes = changed_axes(change.to);
      if (!is_larger(change.axes) && try_setting(changed_to(change.to))) suggested_.push_back(change.axes);
    }
  }

  /// Returns true if a part of the change has been suggested.
  bool is_larger(Axes axes) const {
    return std::ranges::any_of(suggested_, [&](Axes part) { return (part & ~axes) == 0; });
  }

  bool try_alike(std::span<const LayoutChange> changes) {
    const bool is_single = std::has_single_bit(changes.front().axes);
    if (!is_single) {
      const auto grid = changes.front().grid();
      if (!too_large_.contains(grid))  // plan what saves the most, and what is no smaller, until something fits
        std::ranges::find_if(changes_ | std::views::reverse,
                             [&](const LayoutChange& each) { return each.grid() == grid && fits(each); });
      fits(changes.back());
    }
    return std::ranges::any_of(changes, [&](const LayoutChange& each) {
      return (is_single || fits(each)) && try_setting(changed_to(each.to));
    });
  }

  /// Returns true if `one` needs at most the memory of `other`, which is on the same grid, if their ZeRO stages need
  /// the same. What moves to the host must have moved before.
  bool outdoes(const LayoutChoice& one, LayoutChoice other) const {
    const bool is_in_files = one.has(Saving::offload_to_files) && (moves_ & bit(Saving::offload_to_files)) == 0;
    if (is_in_files) other.savings &= ~bit(Saving::offload_optimizer);
    const bool is_1f1b = one.schedule == ScheduleKind::one_forward_one_backward;
    return one.micro_batch <= other.micro_batch && one.sequence_parallel >= other.sequence_parallel &&
           one.is_balanced == other.is_balanced &&
           (is_1f1b || (one.schedule == other.schedule && one.chunks == other.chunks)) &&
           other.saves_no_more_than(one) && (one.savings & moves_ & ~other.savings) == 0;
  }

  /// Plans the layout, unless one that saves as much does not fit.
  bool fits(const LayoutChange& change) {
    std::vector<LayoutChoice>& too_large = too_large_[change.grid()];
    const auto needs_less = [&to = change.to, this](const LayoutChoice& each) {
      // Where buckets are large or layers few, ZeRO 2 and 3 need more than ZeRO 1.
      return (each.zero == to.zero || to.zero == 0) && outdoes(each, to);
    };
    if (std::ranges::any_of(too_large, needs_less)) return false;
    ++planned_;
    const bool fits = need_of(changed_to(change.to)).has_value();
    if (!fits) too_large.push_back(change.to);
    return fits;
  }

  /// Returns the run's grid with the values of all other axes that save the most without costing time.
  LayoutChoice with_all_sharing() const {
    LayoutChoice out = own_;
    for (const LayoutChange& change : changes_)
      if ((change.axes & (kGrid | kSplit)) == 0 && change.to.savings == 0 && change.to.zero >= out.zero &&
          outdoes(change.to, out))
        out = change.to;
    return out;
  }

  /// Returns the changes of the run on the command line.
  std::string flags_of(const ChangedRun& setting) const {
    std::vector<std::string> words = changed_flags(given_, setting.options);
    if (setting.config.num_layers != base_.config.num_layers)
      words.push_back(cat("--num-layers ", setting.config.num_layers));
    const std::int64_t world = setting.options.parallel.world;
    if (world == base_.options.parallel.world) return join(words, " ");
    const bool is_one_host = world == setting.ranks_per_host;
    words.push_back(
        cat("on ", count_of(world, "rank"), is_one_host ? "" : cat(", ", setting.ranks_per_host, " per host")));
    return join(words, " ");
  }

  /// Returns nothing if the setting does not fit or is not valid.
  std::optional<MemoryNeed> need_of(const ChangedRun& setting) const {
    const auto& [options, config, ranks_per_host] = setting;
    if (!can_run(options, config)) return {};
    try {
      FitLimits limits = limits_;
      if (limits.host_of) limits.host = limits.host_of(options, ranks_per_host);
      MemoryNeed need;
      const RunShape shape = run_shape(options, config, 0);
      const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
      for (const MemoryPlan& plan : plan_largest_ranks(config, run_dropout(options), shape, schedule))
        need.enlarge(MemoryNeed::of({&plan}, {}));
      if (!need.fits(limits)) return {};  // most are too large, and all ranks take longer to plan
      const std::vector<RankPlan> plans = plan_run(options, config);
      const auto by_rank = plans_by_rank(plans);
      for (int first = 0; first < static_cast<int>(by_rank.size()); first += ranks_per_host)
        need.enlarge(MemoryNeed::of(by_rank, {.first = first, .count = ranks_per_host}));
      return need.fits(limits) ? std::optional(need) : std::nullopt;
    } catch (const Error&) {
      return {};  // the layers, heads or rows cannot be divided this way
    }
  }

  /// If the setting is valid and fits, adds it to the suggestions and returns true.
  bool try_setting(const ChangedRun& setting) {
    const std::string flags = flags_of(setting);
    if (lines_.size() == kMaxSuggestions || flags.empty()) return false;
    const std::optional<MemoryNeed> need = need_of(setting);
    if (!need) return false;
    lines_.push_back(cat("\n  ", flags, ": ", need->text()));
    return true;
  }

  /// Tries each halving of each start until one fits, but of later starts, which change more, only fewer times.
  void try_halvings(const std::vector<ChangedRun>& starts, std::vector<Halving> halvings) {
    for (const ChangedRun& from : starts)
      for (Halving& halving : halvings)
        for (int times = 1; times <= halving.most && lines_.size() < kMaxSuggestions; ++times) {
          ChangedRun setting = from;
          if (halving.change(setting, times) && try_setting(setting)) halving.most = times - 1;
        }
  }

  /// Returns the change that doubles ranks with this size; if it is the number of ranks, with that of replicas. They
  /// are on the same host if they fit, otherwise on more hosts with the same number of ranks per host.
  Halving more_ranks(std::int64_t ParallelOptions::*size) const {
    const auto change = [this, size](ChangedRun& setting, int times) {
      ParallelOptions& parallel = setting.options.parallel;
      const bool is_one_host = parallel.world == setting.ranks_per_host;
      parallel.world <<= times;
      if (parallel.world > kLargestWorld) return false;
      if (size != &ParallelOptions::world)
        parallel.*size <<= times;
      else if (parallel.zero() == 0)
        set_zero_stage(parallel, 1);
      if (!can_run(setting.options, setting.config))  // a pipeline forbids some stages
        set_zero_stage(parallel, std::min(parallel.zero(), zero_stages(parallel).back()));
      ChangedRun together = setting;
      together.ranks_per_host = static_cast<int>(parallel.world);
      if (is_one_host && need_of(together)) setting = together;
      return true;
    };
    return {change, size == &ParallelOptions::world && !may_regroup_ ? 0 : kMaxDoublings};
  }

  /// In a run in bf16, halves the main gradients.
  static bool halve_gradients(ChangedRun& run, int) {
    const Precision precision = precision_of(run.options.precision);
    run.options.precision.grad_reduce_in_bf16 = true;
    return precision.compute == DType::bf16 && precision.main_grads == DType::f32;
  }

  static bool compute_in_bf16(ChangedRun& run, int) {
    const PrecisionOptions was = std::exchange(run.options.precision, {});
    run.options.precision.bf16 = true;
    return precision_of(was).compute == DType::f32;
  }

  const FitLimits& limits_;
  bool is_fresh_, may_regroup_;
  const TrainOptions& given_;
  ChangedRun base_;   // as given, with the number of samples in a step, which stays
  LayoutChoice own_;  // the run's layout
  unsigned moves_ =
      bit(Saving::offload_optimizer) | bit(Saving::offload_activations);  // savings that cost memory elsewhere
  std::vector<LayoutChange> changes_;
  std::map<std::array<int, 3>, std::vector<LayoutChoice>> too_large_;  // by grid
  std::vector<Axes> suggested_;
  int planned_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> find_fitting_settings(const TrainOptions& options, const FitStart& start,
                                               const HostRanks& host, const FitLimits& limits) {
  return Suggestions(options, start, host, limits).find();
}

}  // namespace mtl
