#include "planner/step_trace.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "engine/stage.h"
#include "engine/step_record.h"

namespace mtl {

namespace {

/// True for the messages between stages, which follow from the schedule. The stages also have operations together.
bool is_between_stages(const ProfileEntry& start) {
  return start.detail == kPipelineGroup &&
         (start.name == name_of(OperationKind::send) || start.name == name_of(OperationKind::receive));
}

OperatorClass class_of(const std::string& name) {
  if (name == "gemm") return OperatorClass::gemm;
  if (name == "attention_forward") return OperatorClass::attention_forward;
  return name == "attention_backward" ? OperatorClass::attention_backward : OperatorClass::memory;
}

OperationKind operation_named(const std::string& name) {
  const auto kind = enum_named<OperationKind>(kOperationNames, name);
  if (!kind) fail(Exit::failure, "a profile has an operation '", name, "'");
  return *kind;
}

/// Turns a profile's entries from `begin` to `end` into events.
class Recorder {
 public:
  Recorder(const Profile& profile, std::int64_t layers) : entries_(profile.entries()), layers_(layers) {}

  std::vector<TraceEvent> events(std::size_t begin, std::size_t end) {
    std::vector<TraceEvent> out;
    std::map<int, int> started;  // entry -> index in `out`
    for (std::size_t i = begin; i < end; ++i) {
      const ProfileEntry& entry = entries_[i];
      const int unit = unit_of(entry);
      if (entry.kind == ProfileKind::op) {
        out.push_back({.kind = TraceEvent::Kind::work,
                       .operator_class = class_of(entry.name),
                       .name = entry.name,
                       .operands = entry.detail,
                       .dtype = entry.dtype,
                       .work = entry.work,
                       .unit = unit});
      } else if (entry.kind == ProfileKind::communication && entry.started < 0) {
        if (is_between_stages(entry)) continue;
        started[static_cast<int>(i)] = static_cast<int>(out.size());
        out.push_back({.kind = TraceEvent::Kind::start,
                       .unit = unit,
                       .operation = operation_named(entry.name),
                       .group = entry.detail,
                       .bytes = entry.work.bytes,
                       .outlives = true});
      } else if (entry.kind == ProfileKind::communication && waited_.insert(entry.started).second) {
        const ProfileEntry& start = entries_[static_cast<std::size_t>(entry.started)];
        if (is_between_stages(start)) continue;
        const auto found = started.find(entry.started);
        if (found != started.end()) out[found->second].outlives = false;
        out.push_back({.kind = TraceEvent::Kind::wait,
                       .unit = unit,
                       .operation = operation_named(start.name),
                       .group = start.detail,
                       .started = found == started.end() ? -1 : found->second});
      }
    }
    return out;
  }

 private:
  /// Returns TraceEvent::unit.
  int unit_of(const ProfileEntry& entry) const {
    for (int at = entry.parent; at >= 0; at = entries_[static_cast<std::size_t>(at)].parent) {
      const ProfileEntry& range = entries_[static_cast<std::size_t>(at)];
      if (range.kind == ProfileKind::layer)
        return range.name == "embedding" ? 0 : static_cast<int>(range.name == "head" ? layers_ : range.number) + 1;
    }
    return -1;
  }

  const std::vector<ProfileEntry>& entries_;
  std::int64_t layers_;
  std::set<int> waited_;  // starts; a second wait for the same operation takes no time
};

}  // namespace

std::size_t StepTrace::index_of(const Action& action) const {
  const bool is_last = action.micro_batch == micro_batches - 1;
  const int recorded_as = is_last ? recorded_micro_batches - 1 : std::min(action.micro_batch, kBetweenMicroBatches);
  const auto found = std::ranges::find_if(recorded, [&](const Recorded& one) {
    return one.action == Action{action.kind, recorded_as, action.chunk};
  });
  require(found != recorded.end(), "a step has an action that was not recorded");
  return static_cast<std::size_t>(found - recorded.begin());
}

StepTrace trace_step(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                     ParamTraffic::Overlap overlap) {
  const StepRecord record = record_step(config, dropout, shape, overlap, false);
  StepTrace out;
  out.micro_batches = static_cast<int>(shape.micro_batches);
  out.recorded_micro_batches = record.micro_batches;
  out.update_host_bytes = record.update_host_bytes;
  out.update_file_bytes = record.update_file_bytes;
  Recorder recorder(record.profile, config.num_layers);
  for (const StepRecord::Part& part : record.second) {
    if (part.action.kind <= ActionKind::weight)  // without messages
      out.recorded.push_back(
          {.action = part.action, .events = recorder.events(part.begin, part.end), .host_bytes = part.host_bytes});
    for (std::size_t entry = part.begin; entry < part.end && out.message_bytes == 0; ++entry)
      if (const ProfileEntry& each = record.profile.entries()[entry]; is_between_stages(each))
        out.message_bytes = each.work.bytes;
  }
  out.update = recorder.events(record.update, record.profile.entries().size());
  return out;
}

std::vector<StepTrace> trace_stages(const GptConfig& config, const DropoutOptions& dropout, RunShape shape,
                                    ParamTraffic::Overlap overlap, const std::vector<std::vector<Action>>& schedule) {
  std::vector<StepTrace> out;
  std::map<std::vector<ChunkKind>, int> known;  // stage, by what it holds
  for (int stage = 0; stage < shape.layout.stages(); ++stage) {
    shape.layout.rank = shape.layout.grid.rank_at({.pipeline = stage});
    const auto [at, is_new] = known.try_emplace(stage_kind(config, shape.layout), stage);
    out.push_back(is_new ? trace_step(config, dropout, shape, overlap) : StepTrace(out[at->second]));
    out.back().schedule = rank_schedule(shape.layout, schedule[stage]).actions;
  }
  return out;
}

}  // namespace mtl
