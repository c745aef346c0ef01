#include "planner/plan_layouts.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "base/str.h"
#include "engine/rank_plans.h"
#include "planner/step_bound.h"
#include "run/layout_changes.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

/// True if only the faster of two candidates is listed: they have the same grid, schedule and ZeRO stage.
bool are_alike(const Candidate& a, const Candidate& b) {
  const ParallelOptions &one = a.options.parallel, &other = b.options.parallel;
  return one.tensor == other.tensor && one.context == other.context && one.pipeline == other.pipeline &&
         one.schedule == other.schedule && one.zero_stage == other.zero_stage;
}

/// Inserts a candidate in the order of `number_of`, unless one that is alike has at most the same number. Keeps `most`.
template <class NumberOf>
void insert(std::vector<Candidate>& list, const Candidate& candidate, std::size_t most, const NumberOf& number_of) {
  const auto alike = std::ranges::find_if(list, [&](const Candidate& other) { return are_alike(other, candidate); });
  if (alike != list.end()) {
    if (number_of(*alike) <= number_of(candidate)) return;
    list.erase(alike);
  }
  list.insert(std::ranges::upper_bound(list, number_of(candidate), {}, number_of), candidate);
  if (list.size() > most) list.pop_back();
}

/// Sets the candidate's memory from plans among which is one of the ranks that need the most.
void set_memory(Candidate& candidate, const std::vector<MemoryPlan>& plans) {
  for (const MemoryPlan& plan : plans) {
    candidate.bytes = std::max(candidate.bytes, plan.total_bytes(plan.scarce_space()));
    candidate.host_bytes = std::max(candidate.host_bytes, plan.total_bytes(Space::host));
  }
}

StepTime simulate_run(const TrainOptions& options, const RunShape& shape, const PlanRequest& request,
                      const std::vector<std::vector<Action>>& schedule, Timeline* timeline = nullptr) {
  const std::vector<StepTrace> traces =
      trace_stages(request.config, run_dropout(options), shape, run_overlap(options), schedule);
  return simulate_step(traces, shape.layout, request.node_size, request.machine, options.tf32, timeline);
}

std::vector<std::vector<Action>> make_schedule(const RunShape& shape) {
  return pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request), choices_(layout_choices(request)) {
    std::erase_if(choices_, [&](const LayoutChoice& choice) { return bounds_.repeats_even(choice); });
    out_.candidates = choices_.size();
    for (std::size_t i = 0; i < choices_.size(); ++i)
      out_.layouts += std::size_t(i == 0 || choices_[i].layout != choices_[i - 1].layout);
  }

  LayoutPlans run(std::size_t most, const PlanProgress& goes_on) {
    constexpr std::size_t kBetweenCalls = 256;  // a bound takes microseconds
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (i % kBetweenCalls == 0 && !(out_.is_complete = goes_on(out_))) return std::move(out_);
      if (least_excess(choices_[i]) > 1) continue;
      queue_.push({.bound_ms = bounds_.least_ms(choices_[i]), .choice = i});
      ++out_.bounded;
    }
    while (!queue_.empty()) {
      const Step step = queue_.top();
      if (out_.best.size() == most && step.bound_ms >= out_.best.back().time->ms) break;
      if (!(out_.is_complete = goes_on(out_))) return std::move(out_);
      queue_.pop();
      if (const auto planned = fitting_.find(step.choice); planned != fitting_.end()) {
        Candidate& candidate = planned->second;
        candidate.time = simulate(candidate.options);
        out_.unmeasured.insert(candidate.time->unmeasured.begin(), candidate.time->unmeasured.end());
        ++out_.simulated;
        insert(out_.best, candidate, most, [](const Candidate& each) { return each.time->ms; });
        fitting_.erase(planned);
      } else if (!is_outdone(choices_[step.choice])) {
        plan_next(step);
      }
    }
    out_.too_large = out_.best.empty() ? smallest(most) : faster_but_too_large(most);
    return std::move(out_);
  }

 private:
  /// A choice to plan or, if it has been planned, to simulate.
  struct Step {
    double bound_ms;
    std::size_t choice;  // of choices_
    auto operator<=>(const Step&) const = default;
  };

  /// Returns true if the layout fits with fewer savings.
  bool is_outdone(const LayoutChoice& choice) const {
    const auto fit = fit_.find(choice.layout);
    return fit != fit_.end() && std::ranges::any_of(fit->second, [&](std::size_t other) {
             return choices_[other].saves_no_more_than(choice);
           });
  }

  /// Returns needed memory as a multiple of what there is, of the device or of its host, whichever lacks more.
  double excess(double bytes, double host_bytes) const {
    return std::max(bytes / request_.device_bytes, request_.ranks_per_node() * host_bytes / request_.host_bytes);
  }
  double excess_of(const Candidate& each) const { return excess(double(each.bytes), double(each.host_bytes)); }
  double least_excess(const LayoutChoice& choice) {
    return excess(bounds_.least_bytes(choice), bounds_.least_host_bytes(choice));
  }

  /// Plans a choice's memory and, if it fits, queues it with a bound from all that it counts.
  void plan_next(const Step& step) {
    const LayoutChoice& choice = choices_[step.choice];
    if (least_excess(choice) > 1) return;  // as plans have shown meanwhile
    Candidate candidate = plan(choice);
    if (excess_of(candidate) > 1) return;
    ++out_.fitting;
    fit_[choice.layout].push_back(step.choice);
    candidate.bound_ms = std::max(candidate.bound_ms, step.bound_ms);
    queue_.push({.bound_ms = candidate.bound_ms, .choice = step.choice});
    fitting_.emplace(step.choice, std::move(candidate));
  }

  Candidate plan(const LayoutChoice& choice) {
    ++out_.planned;
    Candidate out{.options = choice.options(request_.run)};
    const RunShape shape = run_shape(out.options, request_.config, 0);
    const std::vector<MemoryPlan> plans =
        plan_largest_ranks(request_.config, run_dropout(out.options), shape, schedule_of(shape));
    bounds_.learn(choice, plans);
    set_memory(out, plans);
    for (const MemoryPlan& plan : plans) out.bound_ms = std::max(out.bound_ms, bound_of(plan, choice));
    return out;
  }

  /// All FLOPs and all bytes at the rates of the fastest class of operators, and each group's bytes over its links.
  double bound_of(const MemoryPlan& plan, const LayoutChoice& choice) {
    const Machine& machine = request_.machine;
    const DType compute = precision_of(request_.run.precision).compute;
    double ms =
        std::max(plan.step.flops / (machine.best_share() * machine.device.tflops(compute, request_.run.tf32) * 1e9),
                 plan.step.bytes / machine.bytes_per_ms());
    for (const GroupTraffic& each : plan.sent) {
      if (each.group == kPipelineGroup) continue;  // two channels, and links that stages may share
      ms = std::max(ms, operation_ms(OperationKind::all_gather, each.sent.bytes, bounds_.place_of(choice, each.group),
                                     machine.links));
    }
    return ms * kRounding;
  }

  /// Returns the schedule of all stages. Keeps the last ones, because zero-bubble schedules take long to find.
  const std::vector<std::vector<Action>>& schedule_of(const RunShape& shape) {
    const Layout& layout = shape.layout;
    const ScheduleKey key{layout.schedule, layout.stages(), layout.chunks, shape.micro_batches, layout.durations};
    const auto found = std::ranges::find(schedules_, key, &KeptSchedule::first);
    if (found != schedules_.end()) return found->second;
    if (schedules_.size() == kKeptSchedules) schedules_.pop_front();
    return schedules_.emplace_back(key, make_schedule(shape)).second;
  }

  StepTime simulate(const TrainOptions& options) {
    const RunShape shape = run_shape(options, request_.config, 0);
    return simulate_run(options, shape, request_, schedule_of(shape));
  }

  /// Returns layouts without savings that are too large, and might be faster than the best.
  std::vector<Candidate> faster_but_too_large(std::size_t most) {
    std::vector<Step> steps;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (choices_[i].savings != 0 || fit_.contains(choices_[i].layout)) continue;
      const double bound_ms = bounds_.least_ms(choices_[i]);
      if (bound_ms < out_.best[0].time->ms) steps.push_back({.bound_ms = bound_ms, .choice = i});
    }
    std::ranges::sort(steps);
    std::vector<Candidate> out;
    for (const Step& step : steps) {
      Candidate candidate{.options = choices_[step.choice].options(request_.run)};
      if (out.size() == most) break;
      if (std::ranges::any_of(out, [&](const Candidate& other) { return are_alike(other, candidate); })) continue;
      candidate = plan(choices_[step.choice]);
      candidate.bound_ms = std::max(candidate.bound_ms, step.bound_ms);
      if (double(candidate.bytes) > request_.device_bytes) out.push_back(std::move(candidate));
    }
    return out;
  }

  /// Returns what lacks the least memory.
  std::vector<Candidate> smallest(std::size_t most) {
    std::vector<std::pair<double, std::size_t>> order;  // least excess, choice
    for (std::size_t i = 0; i < choices_.size(); ++i) order.emplace_back(least_excess(choices_[i]), i);
    std::ranges::sort(order);
    std::vector<Candidate> out;
    for (const auto& [least, choice] : order) {
      const bool is_full = out.size() == most;
      if (is_full && least >= excess_of(out.back())) break;
      if (is_full && least_excess(choices_[choice]) >= excess_of(out.back()))
        continue;  // as plans have shown meanwhile
      insert(out, plan(choices_[choice]), most, [this](const Candidate& each) { return excess_of(each); });
    }
    return out;
  }

  using ScheduleKey = std::tuple<ScheduleKind, int, int, std::int64_t, std::vector<ActionDurations>>;
  using KeptSchedule = std::pair<ScheduleKey, std::vector<std::vector<Action>>>;
  static constexpr std::size_t kKeptSchedules = 16;

  const PlanRequest& request_;
  StepBounds bounds_{request_};
  std::vector<LayoutChoice> choices_;
  std::priority_queue<Step, std::vector<Step>, std::greater<>> queue_;  // the lowest bound first
  std::map<std::size_t, Candidate> fitting_;                            // by choice: planned, and not simulated yet
  std::map<std::size_t, std::vector<std::size_t>> fit_;                 // by layout: the choices that fit
  std::deque<KeptSchedule> schedules_;
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
      if (group == kHost || group == kFiles) {
        out[group == kHost ? "waits for copies between GPUs and their hosts" : "waits for files"] += ms / stages;
        continue;
      }
      const bool crosses = place_of_group(layout, group, request.node_size).crosses_nodes();
      out[cat("waits for ", group_text(group), crosses ? " between nodes" : " inside a node")] += ms / stages;
    }
  }
  return out;
}

}  // namespace

LayoutPlans plan_layouts(const PlanRequest& request, std::size_t most, const PlanProgress& goes_on) {
  return Planner(request).run(most, goes_on);
}

Candidate time_layout(const PlanRequest& request) {
  Candidate out{.options = request.run};
  const RunShape shape = run_shape(request.run, request.config, 0);
  const std::vector<std::vector<Action>> schedule = make_schedule(shape);
  set_memory(out, plan_largest_ranks(request.config, run_dropout(request.run), shape, schedule));
  out.time = simulate_run(request.run, shape, request, schedule);
  return out;
}

Timeline step_timeline(const Candidate& candidate, const PlanRequest& request) {
  const RunShape shape = run_shape(candidate.options, request.config, 0);
  Timeline out;
  simulate_run(candidate.options, shape, request, make_schedule(shape), &out);
  return out;
}

std::vector<std::string> candidate_flags(const Candidate& candidate) {
  TrainOptions before = candidate.options;
  before.parallel = {};
  before.batch = {};
  before.batch.global_batch_size = 0;  // to be said
  return changed_flags(before, candidate.options);
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
