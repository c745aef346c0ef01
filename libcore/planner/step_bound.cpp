#include "planner/step_bound.h"

#include "engine/meta_model.h"
#include "layout/schedule.h"
#include "layout/stages.h"
#include "optim/bucket_layout.h"
#include "planner/simulate.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

constexpr unsigned kRecomputes = bit(Saving::recompute_attention) | bit(Saving::recompute_layers);

/// Returns the model with one layer of each kind, or with `more` layers of the last kind.
GptConfig with_few_layers(GptConfig config, int more = 0) {
  const bool are_two =
      config.sliding_window > 0 && config.first_window_layer > 0 && config.first_window_layer < config.num_layers;
  config.num_layers = (are_two ? 2 : 1) + more;
  config.first_window_layer = config.first_window_layer == 0 ? 0 : are_two ? 1 : config.num_layers;
  return config;
}

/// Returns the events of a unit, as a list of their own.
std::vector<TraceEvent> events_of(int unit, const std::vector<TraceEvent>& events) {
  std::vector<TraceEvent> out;
  std::map<int, int> index;  // in `out`, by index in `events`
  for (int i = 0; i < std::ssize(events); ++i) {
    if (events[i].unit != unit) continue;
    TraceEvent event = events[i];
    if (event.kind == TraceEvent::Kind::wait) {
      const auto start = index.find(event.started);
      if (start == index.end()) continue;  // of an operation that began before
      event.started = start->second;
    }
    event.outlives = false;
    index[i] = static_cast<int>(out.size());
    out.push_back(std::move(event));
  }
  return out;
}

/// Returns what the work of a unit depends on, as the choice of its tensor-parallel and context-parallel ranks alone.
LayoutChoice work_of(const LayoutChoice& choice) {
  return {.tensor = choice.tensor,
          .context = choice.context,
          .sequence_parallel = choice.sequence_parallel,
          .schedule =
              defers_weights(choice.schedule) ? ScheduleKind::zero_bubble_1 : ScheduleKind::one_forward_one_backward,
          .micro_batch = choice.micro_batch,
          .savings = choice.savings & kRecomputes};
}

/// Returns what a rank's memory for activations and messages depends on: all but the ZeRO stage, and where the
/// optimizer's state is.
LayoutChoice activations_of(LayoutChoice choice) {
  choice.zero = 0;
  choice.savings &= kRecomputes | bit(Saving::offload_activations);
  choice.layout = 0;
  return choice;
}

Layout pipeline_of(const LayoutChoice& choice) {
  return {.grid = RankGrid({.pipeline = choice.pipeline}), .schedule = choice.schedule, .chunks = choice.chunks};
}

/// The bytes that a rank needs for every one of its parameters.
struct ElementBytes {
  double device = 0, host = 0;  // in all
  double largest = 0;           // of one row of a table on the device that a save copies through host memory
};

ElementBytes bytes_per_element(const LayoutChoice& choice, const TrainOptions& run) {
  const std::int64_t replicas = choice.replicas(run.parallel.world);
  Layout layout;
  layout.grid = RankGrid({.data = static_cast<int>(replicas)});
  layout.zero = choice.zero;
  const ParamStorage storage{.optimizer_on_host = choice.has(Saving::offload_optimizer),
                             .optimizer_folder = choice.has(Saving::offload_to_files) ? "DIR" : ""};
  const double owners = layout.owners().empty() ? 1 : double(replicas);
  ElementBytes out;
  RuleSet rules = run_rules(run);
  // A lower bound: the second rule, which takes most of the parameters, keeps fewer states than the first.
  if (rules.rules.size() > 1) rules.rules.erase(rules.rules.begin());
  for (const Storage& row : storage_table(precision_of(run.precision), rules, layout, storage)) {
    const double bytes = double(size_of(row.dtype)) / (row.extent == Extent::owned ? owners : 1);
    if (row.space == Space::device) out.device += bytes;
    if (row.space == Space::host) out.host += bytes;
    if (row.space == Space::device && row.role != StorageRole::gradients) out.largest = std::max(out.largest, bytes);
  }
  return out;
}

}  // namespace

const GroupPlace& StepBounds::place_of(const LayoutChoice& choice, const std::string& group) {
  const auto [at, is_new] = places_.try_emplace({choice.tensor, choice.context, choice.pipeline, group});
  if (is_new) {
    Layout layout;
    layout.grid = rank_grid(choice.options(request_.run).parallel);
    at->second = place_of_group(layout, group, request_.node_size);
  }
  return at->second;
}

std::int64_t StepBounds::micro_batches(const LayoutChoice& choice) const {
  const std::int64_t data = choice.replicas(request_.run.parallel.world) / choice.context;
  return *request_.run.batch.global_batch_size / (data * choice.micro_batch);
}

const StepBounds::ModelCosts& StepBounds::costs_of(const LayoutChoice& choice) {
  const auto [at, is_new] = costs_.try_emplace(work_of(choice));
  if (is_new) at->second = measure(at->first);
  return at->second;
}

StepBounds::ModelCosts StepBounds::measure(const LayoutChoice& alone) const {
  TrainOptions run = request_.run;
  run.parallel.world = alone.tensor * alone.context;
  run.batch.global_batch_size = 2 * alone.micro_batch;
  const TrainOptions options = alone.options(run);
  const GptConfig config = with_few_layers(request_.config);
  RunShape shape = run_shape(options, config, 0);
  shape.layout.schedule = alone.schedule;
  const DropoutOptions dropout = run_dropout(options);
  const StepTrace trace = trace_step(config, dropout, shape, {});
  // A group whose ranks are alone on a node here may be on several nodes. That can only be faster by the latency, and
  // by what overlaps.
  Machine machine = request_.machine;
  if (request_.nodes() > 1) {
    machine.links.inside_us = std::min(machine.links.inside_us, machine.links.between_us);
    machine.links.by_core = false;
  }
  const auto time_of = [&](std::vector<TraceEvent> events) {
    std::vector<StepTrace> only(1);
    only[0].update = std::move(events);
    return simulate_step(only, shape.layout, request_.node_size, machine, options.tf32).ms;
  };
  const double outside = time_of({});
  const auto pass_of = [&](int unit, ActionKind kind) {
    PassMs out;
    for (const StepTrace::Recorded& one : trace.recorded)
      if (one.action.kind == kind)
        (one.action.micro_batch == 0 ? out.first : out.later) = time_of(events_of(unit, one.events)) - outside;
    return out;
  };
  const int head = static_cast<int>(config.num_layers) + 1;
  ModelCosts out;
  const auto cost_of = [&](int unit) -> UnitCost& {
    if (unit == 0) return out.embedding;
    return unit == head ? out.head : out.layer[config.window_of(unit - 1) > 0 ? 1 : 0];
  };
  for (int unit = 0; unit <= head; ++unit)
    cost_of(unit) = {.forward = pass_of(unit, ActionKind::forward),
                     .backward = pass_of(unit, ActionKind::backward),
                     .weight = pass_of(unit, ActionKind::weight),
                     .layers = unit == 0 || unit == head ? 0.0 : 1.0};
  const StepSchedule schedule = counting_schedule(shape.layout, 2);
  const GptConfig deeper = with_few_layers(request_.config, 1);
  MetaStep step(config, dropout, shape, schedule), of_deeper(deeper, dropout, shape, schedule);
  const MetaModel& model = step.model;
  for (int param = 0; param < model.params.size(); ++param) {
    const double count = double(model.params.slice(param).count());
    cost_of(model.params.specs()[param].unit).elements += count;
    out.largest_elements = std::max(out.largest_elements, count);
  }
  const std::int64_t rows = config.vocab_size / alone.tensor;
  out.table_elements = double(rows * config.hidden_size);
  // The update of a small vocabulary is in large part that of its padding, which the elements of a stage do not count.
  const double padded = double(model.params.bytes(kValues)) / double(size_of(model.params.table()[kValues].dtype));
  for (const TraceEvent& event : trace.update) out.update_bytes += event.work.bytes / padded;
  const auto slot_of = [&](MetaStep& planned, const GptConfig& of) {
    return double(plan_passes(planned, of, shape).entry(Category::slots).bytes);
  };
  out.slot_bytes = slot_of(of_deeper, deeper) - slot_of(step, config);
  out.message_bytes = double(model.hidden_bytes(shape));
  out.batch_bytes = double(BatchBuffers::bytes(shape)) * shape.batch_sets;
  const auto flops_of = [&](int unit) {
    double flops = 0;
    for (const StepTrace::Recorded& one : trace.recorded)
      for (const TraceEvent& event : one.events)
        if (one.action.micro_batch == 0 && event.unit == unit) flops += event.work.flops;
    return flops;
  };
  out.flops = {.embedding = flops_of(0), .head = flops_of(head), .layers = {}};
  for (std::int64_t layer = 0; layer < request_.config.num_layers; ++layer) {
    const bool is_first_kind = request_.config.window_of(layer) == config.window_of(0);
    out.flops.layers.push_back(flops_of(is_first_kind ? 1 : head - 1));
  }
  return out;
}

const std::vector<std::int64_t>& StepBounds::counts_of(const LayoutChoice& choice) {
  const bool is_vee = choice.schedule == ScheduleKind::zero_bubble_v;
  const LayoutChoice key = choice.is_balanced ? work_of(choice) : LayoutChoice{};
  const auto [at, is_new] = counts_.try_emplace({choice.pipeline, choice.chunks, is_vee, choice.is_balanced, key});
  if (is_new) {
    const Layout layout = pipeline_of(choice);
    at->second = choice.is_balanced ? balanced_layer_counts(costs_of(choice).flops, layout.places())
                                    : layer_counts(layout, request_.config.num_layers);
  }
  return at->second;
}

bool StepBounds::repeats_even(const LayoutChoice& choice) {
  if (!choice.is_balanced) return false;
  LayoutChoice even = choice;
  even.is_balanced = false;
  const int places = choice.pipeline * choice.chunks;
  const std::int64_t layers = request_.config.num_layers;
  const bool is_possible = choice.chunks == 1 ? layers >= places : layers % places == 0;
  return is_possible && counts_of(even) == counts_of(choice);
}

std::vector<StepBounds::UnitCost> StepBounds::place_costs(const LayoutChoice& choice) {
  const ModelCosts& model = costs_of(choice);
  const std::vector<std::int64_t>& counts = counts_of(choice);
  const GptConfig& config = request_.config;
  const std::int64_t first_window = config.sliding_window > 0 ? config.first_window_layer : config.num_layers;
  std::vector<UnitCost> out(counts.size());
  std::int64_t next = 0;
  for (std::size_t position = 0; position < counts.size(); ++position) {
    const std::int64_t end = next + counts[position], plain = std::clamp(first_window, next, end) - next;
    out[position].add(model.layer[0], double(plain));
    out[position].add(model.layer[1], double(counts[position] - plain));
    next = end;
  }
  out.front().add(model.embedding);
  out.back().add(model.head);
  if (config.tied_embeddings && choice.pipeline > 1 && choice.schedule != ScheduleKind::zero_bubble_v)
    out.back().elements += model.table_elements;  // a copy
  return out;
}

double StepBounds::least_bytes(const LayoutChoice& choice) {
  const ModelCosts& model = costs_of(choice);
  const std::vector<UnitCost> costs = place_costs(choice);
  const Places places = pipeline_of(choice).places();
  const std::int64_t steps = micro_batches(choice);
  const double per_element = bytes_per_element(choice, request_.run).device;
  double out = 0;
  for (int stage = 0; stage < places.stages; ++stage) {
    double elements = 0, slots = 0;
    for (int chunk = 0; chunk < places.chunks; ++chunk) {
      const UnitCost& place = costs[places.position_of({stage, chunk})];
      elements += place.elements;
      if (!choice.has(Saving::offload_activations))
        slots += place.layers * model.slot_bytes * micro_batches_kept(choice, stage, chunk);
    }
    out = std::max(out, elements * per_element + slots);
  }
  if (const auto learned = learned_.find(activations_of(choice)); learned != learned_.end())
    for (const RankMemory& rank : learned->second) out = std::max(out, rank.bytes + rank.elements * per_element);
  return out + double(steps) * model.batch_bytes;
}

double StepBounds::least_host_bytes(const LayoutChoice& choice) {
  const ModelCosts& model = costs_of(choice);
  const ElementBytes bytes = bytes_per_element(choice, request_.run);
  double elements = 0;
  for (const UnitCost& place : place_costs(choice)) elements = std::max(elements, place.elements);
  const auto learned = learned_host_.find(host_key_of(choice));
  // The two may be on different ranks.
  const double fixed = host_of_all_ + std::max(elements * bytes.host, model.largest_elements * bytes.largest);
  return std::max(fixed, learned == learned_host_.end() ? 0 : learned->second) +
         double(micro_batches(choice)) * model.batch_bytes;
}

StepBounds::HostKey StepBounds::host_key_of(const LayoutChoice& choice) {
  return {choice.tensor,
          choice.zero,
          choice.pipeline,
          choice.schedule,
          counts_of(choice),
          choice.has(Saving::offload_optimizer),
          choice.has(Saving::offload_to_files)};
}

void StepBounds::learn(const LayoutChoice& choice, const std::vector<MemoryPlan>& plans) {
  double& fixed = learned_host_[host_key_of(choice)];
  for (const MemoryPlan& plan : plans) {
    if (plan.device == Device::cpu) break;  // whose host memory is that of the device
    const auto on_host = [&](Category category) { return double(plan.bytes(category, Space::host)); };
    fixed = std::max(fixed,
                     double(plan.total_bytes(Space::host)) - on_host(Category::batches) - on_host(Category::offloaded));
    host_of_all_ = on_host(Category::staging) + on_host(Category::step);
  }
  std::vector<RankMemory>& ranks = learned_[activations_of(choice)];
  if (!ranks.empty()) return;
  for (const MemoryPlan& plan : plans) {
    // Not scratch, which the update may enlarge, and not batches, of which graphs have more.
    std::size_t bytes = 0;
    for (Category category : {Category::slots, Category::offload_ring, Category::messages})
      bytes += plan.bytes(category, plan.scarce_space());
    ranks.push_back({.bytes = double(bytes), .elements = double(plan.rank_parameters)});
  }
}

/// Returns how many micro-batches a chunk keeps, or a smaller number.
double StepBounds::micro_batches_kept(const LayoutChoice& choice, int stage, int chunk) {
  const std::int64_t steps = micro_batches(choice);
  if (choice.schedule == ScheduleKind::one_forward_one_backward)
    return double(std::min<std::int64_t>(choice.pipeline - stage, steps));
  if (choice.schedule == ScheduleKind::gpipe) return double(steps);
  if (choice.schedule != ScheduleKind::interleaved) return 1;
  // Longer schedules repeat themselves.
  const std::int64_t few = std::min<std::int64_t>(steps, 4 * choice.pipeline);
  const auto [at, is_new] = interleaved_.try_emplace({choice.pipeline, choice.chunks, few});
  if (is_new) {
    for (const std::vector<Action>& actions : pipeline_schedule(pipeline_of(choice), static_cast<int>(few))) {
      at->second.emplace_back();
      for (int each = 0; each < choice.chunks; ++each) at->second.back().push_back(max_in_flight(actions, each));
    }
  }
  return at->second[stage][chunk];
}

/// Returns the time of a stage's gradients and parameters on the links; `elements` are those of its chunks.
double StepBounds::traffic_ms(const LayoutChoice& choice, const std::vector<double>& elements) {
  const double ranks = double(choice.replicas(request_.run.parallel.world));
  if (ranks == 1) return 0;
  const ModelCosts& model = costs_of(choice);
  const Precision precision = precision_of(request_.run.precision);
  const double share = (ranks - 1) / ranks, gradients = share * double(size_of(precision.main_grads)),
               values = share * double(size_of(precision.compute)), steps = double(micro_batches(choice));
  // A group is one unit, or ends with the first unit that makes it as large as the flag says (bucket_layout.h).
  const double unit =
      std::max({model.embedding.elements, model.head.elements, model.layer[0].elements, model.layer[1].elements});
  const std::optional<std::int64_t> bucket = request_.run.parallel.bucket_elements;
  const double joined = bucket ? double(*bucket) + unit : 0, group = unit + joined;
  // The group that has a tied embedding is reduced once a step, whatever the stage.
  const double tied = request_.config.tied_embeddings ? model.embedding.elements + joined : 0;
  double all = 0, in_rings = 0, not_held = 0;
  for (const double of_chunk : elements) {
    all += of_chunk;
    in_rings += std::max(of_chunk - tied, 0.0);
    // Each pass of a chunk may find in the ring what the pass before gathered last.
    not_held += std::max(of_chunk - tied - UnitGroup::kRing * group, 0.0);
  }
  const double gathered = std::max(in_rings, 2 * steps * not_held);
  const double sent = choice.zero == 0   ? all * 2 * gradients
                      : choice.zero == 1 ? all * (gradients + values)
                      : choice.zero == 2 ? steps * in_rings * gradients + all * values
                                         : steps * in_rings * gradients + gathered * values;
  return operation_ms(OperationKind::all_gather, sent, place_of(choice, "data"), request_.machine.links);
}

double StepBounds::least_ms(const LayoutChoice& choice) {
  const std::vector<UnitCost> costs = place_costs(choice);
  const ModelCosts& model = costs_of(choice);
  const Places places = pipeline_of(choice).places();
  const std::int64_t steps = micro_batches(choice);
  const Machine& machine = request_.machine;
  const double inside = message_ms(model.message_bytes, false, machine.links),
               between = message_ms(model.message_bytes, true, machine.links),
               message = request_.nodes() > 1 ? std::min(inside, between) : inside;
  const double owners = choice.zero > 0 ? double(choice.replicas(request_.run.parallel.world)) : 1;
  const bool in_ring = choice.zero >= 2;
  // The sum of the gradient norm over the replicas, which follows their last gradients and precedes the update.
  const double norm_sum = operation_ms(OperationKind::all_reduce, 0, place_of(choice, "data"), machine.links);
  double out = 0, before = 0;  // `before`: the first forward and the last backward of the stages before
  for (int stage = 0; stage < places.stages; ++stage) {
    UnitCost all;
    std::vector<double> elements;
    for (int chunk = 0; chunk < places.chunks; ++chunk) {
      const UnitCost& cost = costs[places.position_of({stage, chunk})];
      all.add(cost);
      elements.push_back(cost.elements);
    }
    const double passes = all.forward.of(steps, in_ring) + all.backward.of(steps, in_ring);
    const double update = all.elements / owners * model.update_bytes / machine.bytes_per_ms();
    const double others = passes + all.weight.of(steps, in_ring) + update;
    out = std::max({out, before + passes, std::max(others, traffic_ms(choice, elements)) + norm_sum});
    const UnitCost& first = costs[places.position_of({stage, 0})];
    before += first.forward.least() + first.backward.least() + 2 * message;
  }
  return out * kRounding;
}

}  // namespace mtl
