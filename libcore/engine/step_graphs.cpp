#include "engine/step_graphs.h"

namespace mtl {

void StepGraphs::begin_step(int micro_batches) {
  if (micro_batches != micro_batches_) {
    micro_batches_ = micro_batches;
    steps_ = 0;
    parts_.clear();
  }
  ++steps_;
}

void StepGraphs::run(Stream& stream, const Part& part, const std::function<void()>& body) {
  if (steps_ < 2 || stream.profile() != nullptr) return body();  // a graph has no times of single operators
  auto [at, is_new] = parts_.try_emplace(part);
  Captured& captured = at->second;
  if (is_new) {
    const Counters before = stream.counters();
    captured.graph.capture(stream, body);
    captured.work = {stream.counters().flops - before.flops, stream.counters().bytes - before.bytes};
  } else {
    stream.count(captured.work.flops, captured.work.bytes);
  }
  captured.graph.launch(stream);
}

}  // namespace mtl
