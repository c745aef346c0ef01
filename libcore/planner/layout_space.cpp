#include "planner/layout_space.h"

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
  explicit Enumeration(const PlanRequest& request) : request_(request) {}

  std::vector<LayoutChoice> run() {
    const std::int64_t world = request_.run.parallel.world;
    for (int tensor : divisors(world)) {
      if (request_.config.num_heads % tensor != 0) continue;
      for (int context : divisors(world / tensor)) {
        if (!divides_sequences(context)) continue;
        for (int pipeline : divisors(world / tensor / context)) add_grid(tensor, context, pipeline);
      }
    }
    return std::move(out_);
  }

 private:
  bool divides_sequences(int context) const {
    const std::int64_t chunks = 2 * context, length = request_.run.data.seq_length;
    return context == 1 || (length % chunks == 0 && length / chunks >= kLeastPositions);
  }

  void add_grid(int tensor, int context, int pipeline) {
    if (pipeline > request_.config.num_layers + 2) return;  // the embedding and the output layer alone
    const std::int64_t data = request_.run.parallel.world / tensor / context / pipeline;
    if (*request_.run.batch.global_batch_size % data != 0) return;
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
    const std::int64_t places = request_.config.num_layers + 2;
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
    if (!can_run(choice.options(request_.run), request_.config)) return;
    const std::vector<unsigned> savings = possible_savings(choice);
    const std::int64_t samples = *request_.run.batch.global_batch_size / data;
    for (std::int64_t zero : zero_stages(choice.options(request_.run).parallel)) {
      choice.zero = static_cast<int>(zero);
      for (std::int64_t micro_batch : micro_batches(samples)) {
        if (choice.schedule == ScheduleKind::interleaved && samples / micro_batch % choice.pipeline != 0) break;
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
    if (const auto& fixed = request_.fixed.micro_batch)
      return samples % *fixed == 0 ? std::vector{*fixed} : std::vector<std::int64_t>();
    std::vector<std::int64_t> out;
    for (std::int64_t size = 1; samples % size == 0; size *= 2) out.push_back(size);
    return out;
  }

  bool is_as_fixed(const LayoutChoice& choice) const {
    const FixedLayout& fixed = request_.fixed;
    const auto agrees = [](const auto& wanted, const auto& value) { return !wanted || *wanted == value; };
    const char* recompute = choice.has(Saving::recompute_layers)      ? "full"
                            : choice.has(Saving::recompute_attention) ? "selective"
                                                                      : "none";
    const bool has_replicas = choice.tensor * choice.pipeline < request_.run.parallel.world;
    return agrees(fixed.tensor, choice.tensor) && agrees(fixed.context, choice.context) &&
           agrees(fixed.pipeline, choice.pipeline) && (!has_replicas || agrees(fixed.zero_stage, choice.zero)) &&
           (choice.pipeline == 1 ||
            (agrees(fixed.schedule, schedule_name(choice.schedule)) && agrees(fixed.chunks, choice.chunks))) &&
           agrees(fixed.recompute, recompute);
  }

  /// Returns the sets of savings that a layout can use.
  std::vector<unsigned> possible_savings(LayoutChoice choice) const {
    std::vector<unsigned> out;
    const bool has_disk = request_.machine.links.disk_gbs > 0;
    const unsigned sets = 1U << (enum_index(Saving::offload_to_files) + (has_disk ? 1 : 0));
    for (choice.savings = 0; choice.savings < sets; ++choice.savings) {
      if (choice.has(Saving::offload_optimizer) && choice.has(Saving::offload_to_files)) continue;  // the same as files
      TrainOptions options = request_.run;
      const bool acts =
          std::ranges::all_of(kSavings, [&](Saving saving) { return !choice.has(saving) || save(options, saving); });
      if (acts && (!choice.has(Saving::offload_activations) || can_run(choice.options(request_.run), request_.config)))
        out.push_back(choice.savings);
    }
    return out;
  }

  const PlanRequest& request_;
  std::vector<LayoutChoice> out_;
  std::size_t layouts_ = 0;
};

}  // namespace

bool LayoutChoice::saves_no_more_than(const LayoutChoice& other) const {
  const auto recomputed = [](const LayoutChoice& choice) {
    return choice.has(Saving::recompute_layers) ? 2 : choice.has(Saving::recompute_attention) ? 1 : 0;
  };
  const unsigned recompute = 1U << enum_index(Saving::recompute_layers) | 1U << enum_index(Saving::recompute_attention);
  return recomputed(*this) <= recomputed(other) && (savings & ~recompute & ~other.savings) == 0;
}

TrainOptions LayoutChoice::options(const TrainOptions& run) const {
  TrainOptions out = run;
  ParallelOptions& parallel = out.parallel;
  parallel.tensor = tensor;
  parallel.context = context;
  parallel.pipeline = pipeline;
  parallel.sequence_parallel = sequence_parallel;
  if (pipeline > 1) parallel.schedule = schedule_name(schedule);
  if (schedule == ScheduleKind::interleaved) parallel.virtual_stages = chunks;
  if (is_balanced) parallel.pipeline_split = "balanced";
  set_zero_stage(parallel, zero);
  parallel.overlap_grad_reduce = parallel.replicas() > 1;
  parallel.overlap_param_gather = parallel.replicas() > 1 && zero > 0;
  out.batch.micro_batch_size = micro_batch;
  for (Saving saving : kSavings)
    if (has(saving)) save(out, saving);
  return out;
}

std::vector<LayoutChoice> layout_choices(const PlanRequest& request) { return Enumeration(request).run(); }

}  // namespace mtl
