// Recorded steps: of a small model, and made up.
#pragma once

#include <vector>

#include "planner/step_trace.h"
#include "tests/gpt_of_size.h"

namespace mtl::test {

inline RunShape shape_of(const GridSizes& sizes, std::int64_t micro_batches) {
  RunShape shape;
  shape.micro_batch = 2;
  shape.seq_length = 8;
  shape.micro_batches = micro_batches;
  shape.padded_vocab = 64;
  shape.layout.grid = RankGrid(sizes);
  return shape;
}

inline GptConfig small_model() {
  return gpt_of_size({.vocab = 60, .layers = 8, .hidden = 16, .heads = 4, .positions = 8});
}

inline std::vector<StepTrace> trace_all(const GptConfig& config, const RunShape& shape,
                                        ParamTraffic::Overlap overlap = {}) {
  const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
  return trace_stages(config, {}, shape, overlap, schedule);
}

/// Returns traces in which a chunk's forward has 1 GFLOP, and a whole backward two, one of them for weight gradients.
/// The stages end the step together, as with a norm over all gradients.
inline std::vector<StepTrace> unit_traces(Layout layout, const std::vector<std::vector<Action>>& schedule,
                                          int micro_batches) {
  std::vector<StepTrace> out;
  for (int stage = 0; stage < layout.stages(); ++stage) {
    layout.rank = layout.grid.rank_at({.pipeline = stage});
    StepTrace& trace = out.emplace_back();
    trace.schedule = rank_schedule(layout, schedule[static_cast<std::size_t>(stage)]).actions;
    trace.micro_batches = micro_batches;
    trace.recorded_micro_batches = 4;
    trace.update = {{.kind = TraceEvent::Kind::start, .group = kPipelineGroup},
                    {.kind = TraceEvent::Kind::wait, .group = kPipelineGroup, .started = 0}};
    const double backward = defers_weights(layout.schedule) ? 1e9 : 2e9;
    for (int micro_batch = 0; micro_batch < 4; ++micro_batch)
      for (int chunk = 0; chunk < layout.chunks; ++chunk)
        for (const auto& [kind, flops] :
             {std::pair(ActionKind::forward, 1e9), std::pair(ActionKind::backward, backward),
              std::pair(ActionKind::weight, 1e9)})
          trace.recorded.push_back({{kind, micro_batch, chunk}, {TraceEvent{.work = {.flops = flops, .bytes = 0}}}});
  }
  return out;
}

}  // namespace mtl::test
