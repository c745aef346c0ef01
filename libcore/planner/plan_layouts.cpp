#include "planner/plan_layouts.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/str.h"
#include "engine/stage.h"
#include "train/run_plan.h"

namespace mtl {

namespace {

/// Sets what a candidate does besides its grid. Applied in order: each saves memory and costs time.
using Saving = void (*)(ParallelOptions&);
constexpr Saving kSavings[] = {[](ParallelOptions&) {},
                               [](ParallelOptions& parallel) { parallel.recompute_granularity = "selective"; },
                               [](ParallelOptions& parallel) {
                                 parallel.recompute_granularity = "full";
                                 parallel.recompute_method = "uniform";
                               },
                               [](ParallelOptions& parallel) {
                                 parallel.recompute_granularity = "full";
                                 parallel.recompute_method = "uniform";
                                 parallel.optimizer_cpu_offload = true;
                               }};

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> out;
  for (std::int64_t each = 1; each <= number; ++each)
    if (number % each == 0) out.push_back(each);
  return out;
}

/// Attention of fewer positions than this per chunk of a context-parallel rank is not considered.
constexpr std::int64_t kLeastPositions = 128;

/// Calls `use` with every combination of grid, schedule, ZeRO stage and micro-batch that divides the ranks and the
/// batch. `use` returns false if larger micro-batches cannot fit either.
void for_each_layout(const PlanRequest& request, const std::function<bool(const TrainOptions&)>& use) {
  const std::int64_t world = request.run.parallel.world, samples = *request.run.batch.global_batch_size;
  for (std::int64_t tensor : divisors(world)) {
    if (request.config.num_heads % tensor != 0) continue;
    for (std::int64_t context : divisors(world / tensor)) {
      const std::int64_t chunks = 2 * context, length = request.run.data.seq_length;
      if (context > 1 && (length % chunks != 0 || length / chunks < kLeastPositions)) continue;
      for (std::int64_t pipeline : divisors(world / tensor / context)) {
        if (pipeline > request.config.num_layers) continue;
        const std::int64_t data = world / tensor / context / pipeline;
        if (samples % data != 0) continue;
        TrainOptions grid = request.run;
        grid.parallel.tensor = tensor;
        grid.parallel.context = context;
        grid.parallel.pipeline = pipeline;
        grid.parallel.layout.sequence_parallel = tensor > 1;
        for (const char* schedule : {"1f1b", "interleaved", "zb-h1", "zb-v"}) {
          if (pipeline == 1 && schedule != std::string("1f1b")) break;
          const bool defers = starts_with(schedule, "zb");
          for (std::int64_t zero : {1, 2, 3}) {
            if ((zero > 1 && data * context == 1) || (zero == 2 && defers) || (zero == 3 && pipeline > 1)) break;
            for (std::int64_t micro = 1; micro <= samples / data; micro *= 2) {
              if (samples / data % micro != 0) break;
              TrainOptions each = grid;
              each.batch.micro_batch_size = micro;
              if (pipeline > 1) each.parallel.schedule = schedule;
              if (schedule == std::string("interleaved")) each.parallel.virtual_stages = 2;
              each.parallel.zero_stage = data * context > 1 ? zero : 0;
              each.parallel.distributed_optimizer = data * context > 1;
              each.parallel.overlap_grad_reduce = each.parallel.overlap_param_gather = data * context > 1;
              if (!use(each)) break;
            }
          }
        }
      }
    }
  }
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request) {}

  LayoutPlans run(std::size_t most) {
    for_each_layout(request_, [&](const TrainOptions& options) { return add(options); });
    std::ranges::sort(fitting_, {}, &Candidate::bound_ms);
    out_.fitting = fitting_.size();
    for (Candidate& candidate : fitting_) {
      if (out_.best.size() == most && candidate.bound_ms >= out_.best.back().time->ms) break;
      candidate.time = simulate(candidate.options);
      ++out_.simulated;
      insert(candidate, most);
    }
    if (out_.best.empty()) {
      too_large_ = std::move(smallest_);
      std::ranges::sort(too_large_, {}, &Candidate::bytes);
    } else {
      std::erase_if(too_large_, [&](const Candidate& each) { return each.bound_ms >= out_.best[0].time->ms; });
      std::ranges::sort(too_large_, {}, &Candidate::bound_ms);
    }
    too_large_.resize(std::min(too_large_.size(), most));
    out_.too_large = std::move(too_large_);
    return std::move(out_);
  }

 private:
  /// Inserts a candidate, unless one with the same grid, schedule and ZeRO stage is faster.
  void insert(const Candidate& candidate, std::size_t most) {
    const auto alike = std::ranges::find_if(out_.best, [&](const Candidate& other) {
      const ParallelOptions &a = other.options.parallel, &b = candidate.options.parallel;
      return a.tensor == b.tensor && a.context == b.context && a.pipeline == b.pipeline && a.schedule == b.schedule &&
             a.zero_stage == b.zero_stage;
    });
    if (alike != out_.best.end()) {
      if (alike->time->ms <= candidate.time->ms) return;
      out_.best.erase(alike);
    }
    const auto at =
        std::ranges::find_if(out_.best, [&](const Candidate& other) { return candidate.time->ms < other.time->ms; });
    out_.best.insert(at, candidate);
    if (out_.best.size() > most) out_.best.pop_back();
  }

  /// Plans a layout with as few savings as fit. Returns false if it does not fit with all of them.
  bool add(const TrainOptions& layout) {
    Candidate candidate;
    for (std::size_t saving = 0; saving < std::size(kSavings); ++saving) {
      candidate.options = layout;
      kSavings[saving](candidate.options.parallel);
      if (!plan(candidate)) return true;
      if (saving == 0) ++out_.candidates;
      if (double(candidate.bytes) <= request_.device_bytes) {
        fitting_.push_back(candidate);
        return true;
      }
      if (saving == 0) too_large_.push_back(candidate);
      if (saving + 1 == std::size(kSavings)) smallest_.push_back(candidate);
    }
    return false;
  }

  /// Sets the candidate's memory and bound. Returns false if mtl-train cannot run it.
  bool plan(Candidate& candidate) {
    bool is_valid = true;
    check_options(candidate.options, [&](const std::string&, const std::string&) { is_valid = false; });
    if (!is_valid) return false;
    try {
      const std::vector<RankPlan> plans = plan_run(candidate.options, request_.config);
      const Layout layout = resolve_layout(candidate.options.parallel, request_.config.num_layers, 0);
      candidate.bytes = largest_plan(plans).plan.total_bytes(Space::device);
      candidate.bound_ms = 0;
      std::map<std::string, GroupPlace> places;
      for (const RankPlan& each : plans)
        candidate.bound_ms = std::max(candidate.bound_ms, bound_of(each.plan, layout, places));
    } catch (const Error&) {
      return false;  // the layers, heads or rows cannot be divided this way
    }
    return true;
  }

  /// `places` keeps the places of the layout's groups.
  double bound_of(const MemoryPlan& plan, const Layout& layout, std::map<std::string, GroupPlace>& places) const {
    const Machine& machine = request_.machine;
    const double share = std::max(machine.gemm, machine.attention);
    const DType compute = precision_of(request_.run.precision).compute;
    double ms = std::max(plan.step.flops / (share * machine.device.tflops(compute, request_.run.tf32) * 1e9),
                         plan.step.bytes / (machine.memory * machine.device.dram_gbs * 1e6));
    for (const GroupTraffic& each : plan.sent) {
      if (each.group == "pipeline") continue;  // two channels, and links that stages may share
      const auto [at, is_new] = places.try_emplace(each.group);
      if (is_new) at->second = place_of_group(layout, each.group, request_.node_size);
      ms = std::max(ms, operation_ms(OperationKind::all_gather, each.sent.bytes, at->second, machine.links));
    }
    return ms;
  }

  StepTime simulate(const TrainOptions& options) {
    std::vector<StepTrace> traces;
    std::map<std::vector<ChunkKind>, std::size_t> known;  // stage, by what it holds
    RunShape shape = run_shape(options, request_.config, 0);
    const std::vector<std::vector<Action>> actions =
        pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
    for (int stage = 0; stage < shape.layout.stages(); ++stage) {
      shape.layout.rank = shape.layout.grid.rank_at({0, 0, 0, 0, stage});
      const auto [at, is_new] = known.try_emplace(stage_kind(request_.config, shape.layout), traces.size());
      if (is_new) {
        traces.push_back(trace_step(request_.config, run_dropout(options), shape, run_overlap(options)));
      } else {
        traces.push_back(traces[at->second]);
      }
      if (is_new) note_unmeasured(traces.back());
      traces.back().schedule = rank_schedule(shape.layout, actions[static_cast<std::size_t>(stage)]).actions;
    }
    return simulate_step(traces, shape.layout, request_.node_size, request_.machine, options.tf32);
  }

  void note_unmeasured(const StepTrace& trace) {
    const OperatorTimes* times = request_.machine.measured.get();
    if (times == nullptr) return;
    const auto note = [&](const std::vector<TraceEvent>& events) {
      for (const TraceEvent& event : events)
        if (event.kind == TraceEvent::Kind::work && !times->has(event.name)) out_.unmeasured.insert(event.name);
    };
    for (const StepTrace::Recorded& each : trace.recorded) note(each.events);
    note(trace.update);
  }

  const PlanRequest& request_;
  std::vector<Candidate> fitting_, too_large_;  // those too large are without savings
  std::vector<Candidate> smallest_;             // with all savings, and still too large
  LayoutPlans out_;
};

/// What a group is for, in reasons.
std::string group_text(const std::string& group) {
  if (group == "tensor") return "tensor-parallel ranks";
  if (group == "context") return "context-parallel ranks";
  if (group == "data") return "data-parallel ranks";
  if (group == "pipeline") return "all stages";
  return "the other copy of the embedding";
}

/// Returns the parts of a step's time by name, as means over the stages.
std::map<std::string, double> parts_of(const Candidate& candidate, const PlanRequest& request) {
  const Layout layout = resolve_layout(candidate.options.parallel, request.config.num_layers, 0);
  std::map<std::string, double> out;
  const double stages = double(candidate.time->stages.size());
  for (const StageTime& stage : candidate.time->stages) {
    out["computes"] += stage.compute / stages;
    out["waits for messages between stages"] += stage.message_wait / stages;
    out["is idle in the pipeline's schedule"] += stage.idle / stages;
    for (const auto& [group, ms] : stage.waits) {
      const bool crosses = place_of_group(layout, group, request.node_size).crosses_nodes();
      out[cat("waits for ", group_text(group), crosses ? " between nodes" : " inside a node")] += ms / stages;
    }
  }
  return out;
}

}  // namespace

LayoutPlans plan_layouts(const PlanRequest& request, std::size_t most) { return Planner(request).run(most); }

std::vector<std::string> candidate_flags(const Candidate& candidate) {
  const ParallelOptions& parallel = candidate.options.parallel;
  std::vector<std::string> out;
  const auto add = [&](const char* flag, auto value) {
    out.emplace_back(flag);
    out.push_back(cat(value));
  };
  if (parallel.tensor > 1) {
    add("--tensor-model-parallel-size", parallel.tensor);
    out.emplace_back("--sequence-parallel");
  }
  if (parallel.context > 1) add("--context-parallel-size", parallel.context);
  if (parallel.pipeline > 1) {
    add("--pipeline-model-parallel-size", parallel.pipeline);
    add("--pipeline-schedule", *parallel.schedule);
    if (parallel.virtual_stages) add("--num-virtual-stages-per-pipeline-rank", *parallel.virtual_stages);
  }
  if (parallel.zero_stage > 0) add("--zero-stage", parallel.zero_stage);
  if (parallel.overlap_grad_reduce) out.emplace_back("--overlap-grad-reduce");
  if (parallel.overlap_param_gather) out.emplace_back("--overlap-param-gather");
  if (parallel.recompute_granularity) add("--recompute-granularity", *parallel.recompute_granularity);
  if (parallel.recompute_method) add("--recompute-method", *parallel.recompute_method);
  if (parallel.optimizer_cpu_offload) out.emplace_back("--optimizer-cpu-offload");
  add("--micro-batch-size", candidate.options.batch.micro_batch_size);
  add("--global-batch-size", *candidate.options.batch.global_batch_size);
  return out;
}

std::vector<Difference> differences(const Candidate& slower, const Candidate& faster, const PlanRequest& request) {
  std::map<std::string, double> parts = parts_of(slower, request);
  for (const auto& [what, ms] : parts_of(faster, request)) parts[what] -= ms;
  std::vector<Difference> out;
  for (const auto& [what, ms] : parts)
    if (ms > 0) out.push_back({what, ms});
  std::ranges::sort(out, std::ranges::greater(), &Difference::ms);
  return out;
}

}  // namespace mtl
