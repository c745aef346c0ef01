#include "topo/report.h"

#include <numeric>
#include <utility>

#include "base/str.h"
#include "nn/gpt_config.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

std::string layer_list(const std::vector<LayerRange>& chunks) {
  std::vector<std::string> parts;
  for (const LayerRange& range : chunks) {
    if (range.count > 0) parts.push_back(range.text());
  }
  if (parts.empty()) return "no layer";
  bool one = parts.size() == 1 && parts[0].find('-') == std::string::npos;
  return cat(one ? "layer " : "layers ", join(parts, ", "));
}

double mean_forward(const std::vector<ActionDurations>& durations) {
  double sum = 0;
  for (const ActionDurations& each : durations) sum += each.forward;
  return sum / double(durations.size());
}

void scale(ScheduleTimes& times, double factor) {
  times.total *= factor;
  times.ideal *= factor;
  for (std::vector<TimeSpan>& stage : times.spans) {
    for (TimeSpan& span : stage) span = {span.start * factor, span.end * factor};
  }
}

/// Returns what a tensor-parallel rank exchanges in its layers, as recorded: "activations, 4 all-reduces per layer and
/// micro-batch", or an average if layers differ because only some are recomputed. Returns "" if it has no layers.
std::string recorded_traffic(const RankPlan& rank, const std::vector<LayerRange>& chunks, std::int64_t micro_batches,
                             const Recompute& recompute) {
  std::int64_t layers = 0;
  bool is_average = false;
  for (const LayerRange& chunk : chunks) {
    layers += chunk.count;
    is_average |= recompute.granularity == Recompute::Granularity::full &&
                  recompute.method == Recompute::Method::block && recompute.num_layers < chunk.count;
  }
  if (layers == 0) return "";
  std::vector<std::string> parts;
  for (const Collectives& each : rank.collectives) {
    if (each.group != "tensor" || each.layer_operations == 0) continue;
    parts.push_back(
        format("%.3g %ss", double(each.layer_operations) / double(layers * micro_batches), each.operation.c_str()));
  }
  if (parts.empty()) return "";
  return cat("activations, ", join(parts, " and "), " per layer and micro-batch", is_average ? ", on average" : "");
}

}  // namespace

TopoReport::TopoReport(const TopoOptions& options)
    : layout(options.layout()),
      world(static_cast<int>(options.run.parallel.world)),
      stages(static_cast<int>(options.run.parallel.pipeline)),
      node_size(static_cast<int>(options.node_size())),
      nodes((world + node_size - 1) / node_size),
      order(options.run.parallel.order()),
      hosts(options.host_names()),
      cores_per_rank(static_cast<int>(options.run.threads)),
      kinds(group_kinds(layout, node_size)) {
  if (options.run.tokenizer.vocab_size) {
    vocab_size = *options.run.tokenizer.vocab_size;
    padded_vocab = padded_vocab_size(vocab_size, options.run.architecture.make_vocab_size_divisible_by,
                                     options.run.parallel.tensor);
  }
  if (options.wants_memory()) {
    memory.emplace();
    memory->unsupported_reason = options.unsupported_reason();
    memory->run = options.train_options();
    if (memory->unsupported_reason.empty()) {
      auto ignore = [](const std::string&, const std::string&) {};  // check_topo() has reported problems
      const GptConfig config = resolve_config(memory->run, {}, vocab_size, ignore);
      memory->plans = plan_run_report(memory->run, config);
      memory->pipeline = plan_stages(memory->run, config);
      const Layout of_run = run_shape(memory->run, config, 0).layout;
      layout.split.layer_counts = of_run.split.layer_counts;
      layout.durations = of_run.durations;
    }
  }
  if (options.run.architecture.num_layers) layers = split_layers(layout, *options.run.architecture.num_layers);
  micro_batches = options.step_micro_batches();
  if (memory && !memory->plans.empty() && kinds.front().groups.front().size() > 1) {
    for (const RankPlan& rank : memory->plans) {
      const int stage = layout.grid.coordinate(rank.ranks.front(), Axis::pipeline);
      const std::string traffic =
          recorded_traffic(rank, (*layers)[stage], memory->run.micro_batches(), recompute_of(memory->run.parallel));
      if (traffic.empty()) continue;
      kinds.front().traffic = traffic;
      break;
    }
  }
  if (options.wants_schedule()) {
    schedule.emplace();
    schedule->micro_batches = static_cast<int>(*micro_batches);
    schedule->stages = pipeline_schedule(layout, schedule->micro_batches);
    schedule->times = schedule_times(schedule->stages, layout.places(), layout.durations);
    if (!layout.durations.empty()) scale(schedule->times, 1 / mean_forward(layout.durations));
  }
}

std::string TopoReport::node_name(int node) const { return hosts.empty() ? cat("node ", node) : hosts[node]; }

int TopoReport::rank_in_grid(int stage, int column) const {
  int tensor = layout.grid.size(Axis::tensor), replica = columns_of_replica();
  return layout.grid.rank_at(
      {.tensor = column % tensor, .context = column % replica / tensor, .data = column / replica, .pipeline = stage});
}

std::string TopoReport::holdings(int stage) const {
  std::vector<std::string> parts;
  if (stage == 0 && stages > 1) parts.emplace_back("embedding");
  parts.push_back(layers ? layer_list((*layers)[stage]) : stages > 1 ? "layers" : "all of it");
  if (stage == layout.places().loss_stage() && stages > 1) parts.emplace_back("output layer");
  return join(parts, ", ");
}

bool TopoReport::holds_vocabulary(int stage) const {
  return vocab_size > 0 && (stage == 0 || stage == layout.places().loss_stage());
}

std::string TopoReport::size() const {
  std::vector<std::string> factors;
  for (auto [axis, name] : {std::pair(Axis::tensor, "tensor"), std::pair(Axis::context, "context"),
                            std::pair(Axis::data, "data"), std::pair(Axis::pipeline, "pipeline")}) {
    if (layout.grid.size(axis) > 1) factors.push_back(cat(layout.grid.size(axis), " ", name));
  }
  std::string out = cat(world, world == 1 ? " rank" : " ranks");
  if (!factors.empty()) out += cat(" = ", join(factors, " x "));
  out += nodes == 1 ? ", on one node" : cat(", on ", nodes, " nodes of ", node_size);
  int remainder = world % node_size;
  return remainder != 0 && nodes > 1 ? cat(out, " (the last has ", remainder, ")") : out;
}

LayerRange TopoReport::vocab_rows(int tensor_rank) const {
  std::int64_t rows = padded_vocab / layout.grid.size(Axis::tensor);
  return {tensor_rank * rows, rows};
}

std::string TopoReport::vocab_summary() const {
  int parts = layout.grid.size(Axis::tensor);
  return cat("Vocabulary: ", with_commas(vocab_size), " tokens, padded to ", with_commas(padded_vocab), " = ", parts,
             " x ", with_commas(padded_vocab / parts), " rows");
}

std::string TopoReport::schedule_title() const {
  const int count = schedule->micro_batches;
  const std::string out =
      cat("Schedule: ", schedule_name(layout.schedule), ", ", count, count == 1 ? " micro-batch" : " micro-batches");
  return layout.chunks > 1 ? cat(out, ", ", layout.chunks, " chunks per stage") : out;
}

std::vector<int> shown_stages(const TopoReport& report, int most) {
  std::vector<int> stages;
  bool folds = report.stages > most;
  for (int stage = 0; stage < report.stages; ++stage) {
    if (!folds || stage < 3 || stage >= report.stages - 2) stages.push_back(stage);
    if (folds && stage == 3) stages.push_back(-1);
  }
  return stages;
}

std::vector<int> column_range(int begin, int end) {
  std::vector<int> columns(static_cast<std::size_t>(end - begin));
  std::iota(columns.begin(), columns.end(), begin);
  return columns;
}

GridPart::GridPart(const TopoReport& of, std::vector<int> shown_stages, std::vector<int> shown_columns)
    : report(of), stages(std::move(shown_stages)), columns(std::move(shown_columns)) {
  std::vector<int> above;  // the nodes of the row above
  std::size_t above_begin = 0;
  for (std::size_t row = 0; row < stages.size(); ++row) {
    std::vector<int> nodes;
    for (int column : columns) {
      bool shown = stages[row] >= 0 && column >= 0;
      nodes.push_back(shown ? report.node_of(report.rank_in_grid(stages[row], column)) : -1);
    }
    if (nodes == above) {
      for (std::size_t i = above_begin; i < boxes.size(); ++i) boxes[i].last_row = row;
      continue;
    }
    above = nodes;
    above_begin = boxes.size();
    for (std::size_t begin = 0; begin < nodes.size();) {
      std::size_t end = begin;
      while (end + 1 < nodes.size() && nodes[end + 1] == nodes[begin]) ++end;
      if (nodes[begin] >= 0) {
        boxes.push_back(
            {.node = nodes[begin], .first_row = row, .last_row = row, .first_column = begin, .last_column = end});
      }
      begin = end + 1;
    }
  }
}

}  // namespace mtl
