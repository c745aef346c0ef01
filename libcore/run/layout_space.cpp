#include "run/layout_space.h"

#include <algorithm>
#include <bit>

#include "layout/schedule.h"

namespace mtl {

namespace {

/// Attention of fewer positions than this per chunk of a context-parallel rank is not considered.
constexpr std::int64_t kLeastPositions = 128;

std::vector<int> divisors(std::int64_t number) {
  std::vector<int> out;
  for (int each = 1; each <= number; ++each)
    if (number % each == 0) out.push_back(each);
  return out;
}

/// Adds choices axis by axis: each function fixes the values of one axis and calls the next.
class Enumeration {
 public:
  Enumeration(const TrainOptions& run, const GptConfig& config, bool has_disk, const FixedLayout& fixed)
      : run_(run), config_(config), fixed_(fixed), savings_(effective_savings(has_disk)) {
    for (int size : divisors(run.batch.micro_batch_size))
      if (!std::has_single_bit(static_cast<unsigned>(size))) other_sizes_.push_back(size);
  }

  std::vector<LayoutChoice> run() {
    const std::int64_t world = run_.parallel.world;
    for (int tensor : divisors(world)) {
      if (config_.num_heads % tensor != 0) continue;
      for (int context : divisors(world / tensor)) {
        if (!divides_sequences(context)) continue;
        for (int pipeline : divisors(world / tensor / context)) add_grid(tensor, context, pipeline);
      }
    }
    return std::move(out_);
  }

 private:
  bool divides_sequences(int context) const {
    const std::int64_t chunks = 2 * context, length = run_.data.seq_length;
    return context == run_.parallel.context || context == 1 ||
           (length % chunks == 0 && length / chunks >= kLeastPositions);
  }

  void add_grid(int tensor, int context, int pipeline) {
    if (pipeline > config_.num_layers + 2) return;  // the embedding and the output layer alone
    const std::int64_t data = run_.parallel.world / tensor / context / pipeline;
    if (!divides(data, run_.global_batch_size())) return;
    LayoutChoice choice{.tensor = tensor, .context = context, .pipeline = pipeline};
    for (bool sequence_parallel : {true, false}) {
      if (sequence_parallel && tensor == 1) continue;
      choice.sequence_parallel = sequence_parallel;
      if (pipeline == 1)
        add_stages(choice, data);
      else
        add_schedules(choice, data);
    }
  }

  void add_schedules(LayoutChoice choice, std::int64_t data) {
    const std::int64_t places = config_.num_layers + 2;
    auto rows = kSchedules;
    std::swap(rows[enum_index(ScheduleKind::gpipe)], rows[enum_index(ScheduleKind::one_forward_one_backward)]);
    for (const ScheduleTraits& row : rows) {  // 1F1B first: it is preferred where GPipe is as fast
      choice.schedule = row.kind;
      choice.chunks = row.chunks == 0 ? 2 : row.chunks;
      for (; choice.chunks * choice.pipeline <= places; ++choice.chunks) {
        for (bool is_balanced : {false, true}) {
          if (is_balanced && !std::has_single_bit(static_cast<unsigned>(choice.chunks))) continue;
          choice.is_balanced = is_balanced;
          add_stages(choice, data);
        }
        if (row.chunks != 0) break;
      }
    }
  }

  /// Adds ZeRO stages, micro-batches and savings. What mtl-train can run does not depend on them, apart from what is
  /// checked here.
  void add_stages(LayoutChoice choice, std::int64_t data) {
    if (!can_run(choice.options(run_), config_)) return;
    const std::vector<unsigned> savings = possible_savings(choice);
    const std::int64_t samples = run_.global_batch_size() / data;
    for (std::int64_t zero : zero_stages(choice.options(run_).parallel)) {
      choice.zero = static_cast<int>(zero);
      for (std::int64_t micro_batch : micro_batches(samples)) {
        const bool is_grouped = choice.schedule == ScheduleKind::interleaved && !run_.parallel.group;
        if (is_grouped && samples / micro_batch % choice.pipeline != 0) continue;
        choice.micro_batch = micro_batch;
        choice.layout = layouts_++;
        for (unsigned each : savings) {
          choice.savings = each;
          if (is_as_fixed(choice)) out_.push_back(choice);
        }
      }
    }
  }

  std::vector<std::int64_t> micro_batches(std::int64_t samples) const {
    std::vector<std::int64_t> out = other_sizes_;
    for (std::int64_t size = 1; size <= samples; size *= 2) out.push_back(size);
    if (fixed_.micro_batch) out = {*fixed_.micro_batch};
    std::erase_if(out, [&](std::int64_t size) { return !divides(size, samples); });
    return out;
  }

  bool is_as_fixed(const LayoutChoice& choice) const {
    const auto agrees = [](const auto& wanted, const auto& value) { return !wanted || *wanted == value; };
    const char* recompute = choice.has(Saving::recompute_layers)      ? "full"
                            : choice.has(Saving::recompute_attention) ? "selective"
                                                                      : "none";
    const bool has_replicas = choice.replicas(run_.parallel.world) > 1;
    return agrees(fixed_.tensor, choice.tensor) && agrees(fixed_.context, choice.context) &&
           agrees(fixed_.pipeline, choice.pipeline) && (!has_replicas || agrees(fixed_.zero_stage, choice.zero)) &&
           (choice.pipeline == 1 ||
            (agrees(fixed_.schedule, schedule_name(choice.schedule)) && agrees(fixed_.chunks, choice.chunks))) &&
           agrees(fixed_.recompute, recompute);
  }

  /// Returns true if a step's samples can be divided, or sizes of steps are rounded down.
  bool divides(std::int64_t parts, std::int64_t samples) const {
    return parts <= samples && (samples % parts == 0 || run_.batch.decrease_if_needed);
  }

  /// Returns the sets of savings that have an effect in the run.
  std::vector<unsigned> effective_savings(bool has_disk) const {
    std::vector<unsigned> out;
    LayoutChoice choice;
    const unsigned sets = 1U << (enum_index(Saving::offload_to_files) + (has_disk ? 1 : 0));
    for (choice.savings = 0; choice.savings < sets; ++choice.savings) {
      if (choice.has(Saving::offload_optimizer) && choice.has(Saving::offload_to_files)) continue;  // the same as files
      if (choice.has(Saving::recompute_attention) && choice.has(Saving::recompute_layers)) continue;  // as layers
      TrainOptions options = run_;
      if (std::ranges::all_of(kSavings, [&](Saving saving) { return !choice.has(saving) || save(options, saving); }))
        out.push_back(choice.savings);
    }
    return out;
  }

  /// Returns those of them that a layout can use.
  std::vector<unsigned> possible_savings(LayoutChoice choice) const {
    choice.savings = bit(Saving::offload_activations);
    std::vector<unsigned> out = savings_;
    if (!can_run(choice.options(run_), config_))
      std::erase_if(out, [&](unsigned each) { return (each & choice.savings) != 0; });
    return out;
  }

  const TrainOptions& run_;
  const GptConfig& config_;
  const FixedLayout& fixed_;
  std::vector<unsigned> savings_;
  std::vector<std::int64_t> other_sizes_;  // divisors of the run's micro-batch that are not 1, 2, 4, ...
  std::vector<LayoutChoice> out_;
  std::size_t layouts_ = 0;
};

}  // namespace

bool LayoutChoice::saves_no_more_than(const LayoutChoice& other) const {
  const auto recomputed = [](const LayoutChoice& choice) {
    return choice.has(Saving::recompute_layers) ? 2 : choice.has(Saving::recompute_attention) ? 1 : 0;
  };
  const unsigned recompute = bit(Saving::recompute_layers) | bit(Saving::recompute_attention);
  return recomputed(*this) <= recomputed(other) && (savings & ~recompute & ~other.savings) == 0;
}

TrainOptions LayoutChoice::options(const TrainOptions& run) const {
  TrainOptions out = run;
  ParallelOptions& parallel = out.parallel;
  parallel.tensor = tensor;
  parallel.context = context;
  parallel.pipeline = pipeline;
  parallel.sequence_parallel = sequence_parallel;
  parallel.schedule.reset();
  if (pipeline > 1) parallel.schedule = schedule_name(schedule);
  parallel.virtual_stages.reset();
  parallel.layers_per_virtual_stage.reset();
  parallel.layer_layout.reset();
  parallel.split.layer_counts.clear();
  if (schedule == ScheduleKind::interleaved) parallel.virtual_stages = chunks;
  parallel.pipeline_split = is_balanced ? "balanced" : "even";
  set_zero_stage(parallel, zero);
  parallel.overlap_grad_reduce = parallel.replicas() > 1;
  parallel.overlap_param_gather = parallel.replicas() > 1 && zero > 0;
  out.batch.micro_batch_size = micro_batch;
  for (Saving saving : kSavings)
    if (has(saving)) save(out, saving);
  return out;
}

std::vector<LayoutChoice> layout_choices(const TrainOptions& run, const GptConfig& config, bool has_disk,
                                         const FixedLayout& fixed) {
  return Enumeration(run, config, has_disk, fixed).run();
}

}  // namespace mtl
