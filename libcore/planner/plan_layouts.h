// Finds the fastest layouts of a run that fit in its devices' memory.
//
// Every candidate's memory is planned on the meta device, to the byte. Those that fit have a lower bound: all FLOPs and
// all bytes at the rates of the fastest class of operators, and each group's bytes over its links. Candidates are
// replayed (simulate.h) in the order of this bound, until it exceeds the time of the fifth best. Of those with the same
// grid, schedule and ZeRO stage, only the fastest is listed.
//
// Of candidates that differ only in recomputation and offloading, only the first that fits is considered, because each
// costs time and saves memory.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/simulate.h"
#include "train/options.h"

namespace mtl {

struct PlanRequest {
  TrainOptions run;  // the world size, the batches and everything that is the same in all layouts
  GptConfig config;
  Machine machine;
  int node_size = 8;
  double device_bytes = 0;  // of one device, for the plan
};

struct Candidate {
  TrainOptions options;
  std::size_t bytes = 0;  // of device memory, on the rank that needs the most
  double bound_ms = 0;    // a step takes at least this long
  std::optional<StepTime> time = {};
};

struct LayoutPlans {
  std::vector<Candidate> best;       // simulated, the fastest first; at most `most`
  std::vector<Candidate> too_large;  // with a bound below the best time, the lowest first; at most `most`
  std::size_t candidates = 0, fitting = 0, simulated = 0;
  std::set<std::string> unmeasured;  // operators that the machine's profile does not have
};

/// Returns the fastest candidates. If none fits, `best` is empty and `too_large` has those that need the least memory.
LayoutPlans plan_layouts(const PlanRequest& request, std::size_t most = 5);

/// Returns mtl-train's flags for what candidates differ in.
std::vector<std::string> candidate_flags(const Candidate& candidate);

/// A part of a step's time in which a plan is slower than another.
struct Difference {
  std::string what;  // "waits for tensor-parallel ranks, inside a node"
  double ms = 0;     // per step; above 0
};
/// Returns where `slower` loses time against `faster`, the largest first, from the means over the stages.
std::vector<Difference> differences(const Candidate& slower, const Candidate& faster, const PlanRequest& request);

}  // namespace mtl
