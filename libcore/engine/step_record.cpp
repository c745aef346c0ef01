#include "engine/step_record.h"

#include <algorithm>

#include "base/error.h"
#include "engine/meta_model.h"

namespace mtl {

namespace {

std::vector<double> weights_of(const Profile& profile, std::int64_t micro_batches) {
  const std::int64_t repetitions = std::max<std::int64_t>(1, micro_batches - (kRecordedMicroBatches - 1));
  std::vector<double> weights;
  double phase = 1;  // also of what a graph does at its end, which follows a phase
  for (const ProfileEntry& entry : profile.entries()) {
    if (entry.kind == ProfileKind::phase)
      phase = entry.number == kBetweenMicroBatches ? static_cast<double>(repetitions) : 1;
    weights.push_back(phase);
  }
  return weights;
}

/// Returns the phases from entry `begin` on, which are those of `actions`, in order, each with what follows it.
std::vector<StepRecord::Part> parts_of(const std::vector<ProfileEntry>& entries, std::size_t begin,
                                       const std::vector<Action>& actions) {
  std::vector<StepRecord::Part> out;
  for (std::size_t i = begin; i < entries.size();) {
    if (entries[i].kind != ProfileKind::phase) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < entries.size() && entries[end].kind != ProfileKind::phase) ++end;
    out.push_back({actions.at(out.size()), i + 1, end});
    i = end;
  }
  require(out.size() == actions.size(), "a recorded step has ", out.size(), " phases for ", actions.size(), " actions");
  return out;
}

}  // namespace

StepRecord record_step(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                       ParamTraffic::Overlap overlap, bool counts) {
  StepRecord out;
  out.micro_batches = static_cast<int>(std::min<std::int64_t>(kRecordedMicroBatches, shape.micro_batches));
  RunShape few = shape;
  few.micro_batches = out.micro_batches;
  const StepSchedule schedule = counting_schedule(shape.layout, out.micro_batches);
  MetaStep step(config, dropout, shape, schedule, overlap);
  auto& [model, optimizer, pipeline, scratch] = step;
  StepGraphs graphs(model.groups);
  if (shape.graphs) pipeline.use_graphs(graphs, optimizer.traffic(), shape);
  const BatchBuffers buffers(Device::meta, few);
  const auto update = [&] {
    const ProfileRange range(model.stream, ProfileKind::phase, kUpdatePhase);
    step.update();
  };
  optimizer.begin_step();
  if (counts) model.stream.set_profile(&out.profile);
  pipeline.train(buffers);
  model.stream.set_profile(&out.profile);
  update();
  out.weights = weights_of(out.profile, shape.micro_batches);
  const std::size_t second = out.profile.entries().size();
  optimizer.begin_step();
  pipeline.train(buffers);
  out.second = parts_of(out.profile.entries(), second, schedule.actions);
  out.update = out.profile.entries().size();
  update();
  model.stream.set_profile(nullptr);
  out.weights.resize(out.profile.entries().size(), 0);
  for (StepRecord::Part& part : out.second)
    if (part.action.kind == ActionKind::forward || part.action.kind == ActionKind::backward)
      part.host_bytes =
          double(model.stage.chunks[part.action.chunk].offloaded_layers()) * double(pipeline.offloaded_peak());
  for (std::size_t row = 0; row < model.params.table().size(); ++row) {
    const Space space = model.params.table()[row].space;
    if (space == Space::host) out.update_host_bytes += double(model.params.bytes(row));
    if (space == Space::file) out.update_file_bytes += double(model.params.bytes(row));
  }
  return out;
}

}  // namespace mtl
