// Writes a rank layout for other programs: as JSON, or as a rankfile for Open MPI.
#include "base/enum_index.h"
#include "base/str.h"
#include "engine/plan_tables.h"
#include "topo/output.h"

namespace mtl {

namespace {

Json range_json(const LayerRange& range) { return Json::Array{range.first, range.count}; }

Json layers_json(const TopoReport& report, int stage) {
  Json out = Json::array();
  for (const LayerRange& range : (*report.layers)[stage]) out.push(range_json(range));
  return out;
}

Json rank_json(const TopoReport& report, int rank) {
  Json out = Json::object({{"rank", rank}, {"node", report.node_of(rank)}, {"local_rank", report.local_rank(rank)}});
  if (!report.hosts.empty()) out.set("host", report.node_name(report.node_of(rank)));
  for (Axis axis : kShownAxes) out.set(short_name(axis), report.layout.grid.coordinate(rank, axis));
  if (report.layout.expert_grid) out.set("ep", report.layout.expert_grid->coordinate(rank, Axis::expert));
  int stage = report.layout.grid.coordinate(rank, Axis::pipeline);
  if (report.layers) out.set("layers", layers_json(report, stage));
  if (report.holds_vocabulary(stage))
    out.set("vocab_rows", range_json(report.vocab_rows(report.layout.grid.coordinate(rank, Axis::tensor))));
  return out;
}

Json group_json(const GroupKind& kind) {
  Json groups = Json::array();
  for (const std::vector<int>& group : kind.groups) groups.push(Json::Array(group.begin(), group.end()));
  return Json::object({{"kind", kind.name},
                       {"purpose", kind.purpose},
                       {"traffic", kind.traffic},
                       {"across_nodes", kind.crossing},
                       {"ranks", groups}});
}

Json schedule_json(const TopoReport& report) {
  const TopoSchedule& schedule = *report.schedule;
  Json stages = Json::array();
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    Json actions = Json::array();
    for (std::size_t i = 0; i < schedule.stages[stage].size(); ++i) {
      const Action& action = schedule.stages[stage][i];
      const TimeSpan& span = schedule.times.spans[stage][i];
      constexpr const char* kKinds[] = {"forward", "backward", "weight"};
      actions.push(Json::object({{"kind", kKinds[enum_index(action.kind)]},
                                 {"micro_batch", action.micro_batch},
                                 {"chunk", action.chunk},
                                 {"start", span.start},
                                 {"end", span.end}}));
    }
    stages.push(Json::object({{"in_flight", max_in_flight(schedule.stages[stage])}, {"actions", actions}}));
  }
  return Json::object({{"name", std::string(schedule_name(report.layout.schedule))},
                       {"micro_batches", schedule.micro_batches},
                       {"chunks", report.layout.chunks},
                       {"total", schedule.times.total},
                       {"work", schedule.times.ideal},
                       {"bubble", schedule.times.bubble()},
                       {"stages", stages}});
}

Json step_json(const TopoMemory& memory) {
  if (!memory.unsupported_reason.empty()) return Json::object({{"unsupported_reason", memory.unsupported_reason}});
  Json out = Json::object({{"global_batch_size", memory.run.global_batch_size()},
                           {"micro_batch_size", memory.run.batch.micro_batch_size},
                           {"micro_batches", memory.run.micro_batches()},
                           {"seq_length", memory.run.data.seq_length},
                           {"threads", memory.run.threads}});
  if (memory.pipeline) out.set("pipeline", pipeline_json(*memory.pipeline));
  out.set("ranks", rank_plans_json(memory.plans));
  return out;
}

}  // namespace

Json topo_json(const TopoReport& report) {
  Json sizes = Json::object();
  for (Axis axis : kShownAxes) sizes.set(short_name(axis), report.layout.grid.size(axis));
  if (report.layout.expert_grid) sizes.set("ep", report.layout.expert_grid->size(Axis::expert));
  Json ranks = Json::array(), groups = Json::array();
  for (int rank = 0; rank < report.world; ++rank) ranks.push(rank_json(report, rank));
  for (const GroupKind& kind : report.kinds) groups.push(group_json(kind));
  Json out = Json::object({{"format", "mtl-topo"},
                           {"version", 1},
                           {"world_size", report.world},
                           {"nodes", report.nodes},
                           {"gpus_per_node", report.node_size},
                           {"order", report.order},
                           {"sizes", sizes},
                           {"ranks", ranks},
                           {"groups", groups}});
  if (report.vocab_size > 0)
    out.set("vocab", Json::object({{"size", report.vocab_size}, {"padded", report.padded_vocab}}));
  if (report.schedule) out.set("schedule", schedule_json(report));
  if (report.memory) out.set("step", step_json(*report.memory));
  return out;
}

std::string topo_rankfile(const TopoReport& report) {
  std::string out;
  for (int rank = 0; rank < report.world; ++rank) {
    int node = report.node_of(rank), first = report.local_rank(rank) * report.cores_per_rank;
    std::string host = !report.hosts.empty() ? report.node_name(node)
                       : report.nodes == 1   ? "localhost"
                                             : cat("+n", node);
    out += cat("rank ", rank, "=", host, " slot=", first);
    if (report.cores_per_rank > 1) out += cat("-", first + report.cores_per_rank - 1);
    out += "\n";
  }
  return out;
}

}  // namespace mtl
