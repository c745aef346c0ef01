#include "engine/step_graphs.h"

#include "comm/communicator.h"

namespace mtl {

namespace {

void capture(Graph& graph, Stream& stream, const std::function<void()>& body) {
  try {
    graph.capture(stream, body);
  } catch (const CommunicationError&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    fail(error.code(), "cannot capture a part of the step as a CUDA graph: ", error.what(),
         "; use --no-cuda-graphs to run steps without graphs");
  }
}

}  // namespace

void StepGraphs::begin_step(int micro_batches) {
  if (micro_batches != micro_batches_) {
    micro_batches_ = micro_batches;
    steps_ = 0;
    parts_.clear();
  }
  ++steps_;
}

bool StepGraphs::run(Stream& stream, const Part& part, const std::function<void()>& body) {
  if (steps_ < 2 || stream.profile() != nullptr) {  // graphs cannot time individual operators
    body();
    return true;
  }
  auto [at, is_new] = parts_.try_emplace(part);
  Captured& captured = at->second;
  if (is_new) {
    const Counters before = stream.counters();
    capture(captured.graph, stream, body);
    captured.group = &groups_.world();
    for (Communicator* group : groups_.all()) {
      if (group->take_captured()) captured.group = group;
    }
    captured.work = {stream.counters().flops - before.flops, stream.counters().bytes - before.bytes};
  } else {
    stream.count(captured.work.flops, captured.work.bytes);
  }
  captured.group->supervise(stream, [&] { captured.graph.launch(stream); });
  return is_new;
}

}  // namespace mtl
