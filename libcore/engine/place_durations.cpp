#include "engine/place_durations.h"

#include <map>

#include "base/enum_index.h"
#include "engine/stage.h"
#include "engine/step_record.h"

namespace mtl {

namespace {

/// Returns the FLOPs of a micro-batch in each chunk of the rank's stage.
std::vector<ActionDurations> chunk_durations(const GptConfig& config, const DropoutOptions& dropout,
                                             const RunShape& shape) {
  constexpr double ActionDurations::*kOf[] = {&ActionDurations::forward, &ActionDurations::backward,
                                              &ActionDurations::weight};  // by ActionKind
  const StepRecord step = record_step(config, dropout, shape, {}, false);
  std::vector<ActionDurations> out(static_cast<std::size_t>(shape.layout.chunks), {0, 0, 0});
  for (const StepRecord::Part& part : step.second) {
    if (part.action.kind > ActionKind::weight) continue;
    double& flops = out[part.action.chunk].*kOf[enum_index(part.action.kind)];
    for (std::size_t entry = part.begin; entry < part.end; ++entry) flops += step.profile.entries()[entry].work.flops;
  }
  return out;
}

}  // namespace

std::vector<ActionDurations> place_durations(const GptConfig& config, const DropoutOptions& dropout, RunShape shape) {
  shape.micro_batches = 1;
  shape.offloaded_layers = 0;  // costs no FLOPs
  const Places places = shape.layout.places();
  std::map<ChunkKind, ActionDurations> known;
  std::vector<ActionDurations> out(static_cast<std::size_t>(places.count()));
  for (int stage = 0; stage < places.stages; ++stage) {
    shape.layout.rank = shape.layout.grid.rank_at({.pipeline = stage});
    const std::vector<ChunkKind> kinds = stage_kind(config, shape.layout);
    std::vector<ActionDurations> chunks;
    for (int chunk = 0; chunk < places.chunks; ++chunk) {
      const auto [at, is_new] = known.try_emplace(kinds[chunk]);
      if (is_new) {
        if (chunks.empty()) chunks = chunk_durations(config, dropout, shape);
        at->second = chunks[chunk];
      }
      out[places.position_of({stage, chunk})] = at->second;
    }
  }
  return out;
}

}  // namespace mtl
