// Finds the fastest layouts of a run that fit in its devices' memory, among those of run/layout_space.h.
//
// Every candidate has lower bounds of its memory and of its time (step_bound.h). Those that may fit are visited in the
// order of their bound. A candidate's first visit plans its memory on the meta device, to the byte. If it fits, the
// counted work and traffic give a better bound, with which it is visited again: then a step is simulated (simulate.h).
// The search ends when the next bound is not below the time of the fifth best. Of those with the same grid, schedule
// and ZeRO stage, only the fastest is listed.
//
// A layout with savings is not considered if it fits with fewer, because each costs time and saves memory.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/plan_devices.h"
#include "planner/simulate.h"

namespace mtl {

struct Candidate {
  TrainOptions options;
  std::size_t bytes = 0;       // of device memory, or on CPUs of host memory, on the rank that needs the most
  std::size_t host_bytes = 0;  // of host memory, on the rank that needs the most
  double bound_ms = 0;         // a step takes at least this long
  std::optional<StepTime> time = {};
};

struct LayoutPlans {
  std::vector<Candidate> best;       // simulated, the fastest first; at most `most`
  std::vector<Candidate> too_large;  // with a bound below the best time, the lowest first; at most `most`
  std::size_t layouts = 0;           // without savings
  std::size_t candidates = 0;        // layouts, each without and with savings
  std::size_t bounded = 0;           // candidates that may fit, whose time was bounded
  std::size_t planned = 0;           // whose memory was planned
  std::size_t fitting = 0;           // of those
  std::size_t simulated = 0;
  std::set<std::string> unmeasured;  // StepTime::unmeasured of all that were simulated
  bool is_complete = true;           // false if the search was ended; then `too_large` is empty
};

/// Called with what has been found, at least before each candidate is planned or simulated, which takes milliseconds to
/// a second. Returns false to end the search.
using PlanProgress = std::function<bool(const LayoutPlans& so_far)>;

/// Returns the fastest candidates. If none fits, `best` is empty and `too_large` has those that need the least memory.
LayoutPlans plan_layouts(
    const PlanRequest& request, std::size_t most = 5,
    const PlanProgress& goes_on = [](const LayoutPlans&) { return true; });

/// Plans and simulates the layout of request.run, whether it fits or not.
Candidate time_layout(const PlanRequest& request);
/// Simulates the same step as for candidate.time, with all that its stages do.
Timeline step_timeline(const Candidate& candidate, const PlanRequest& request);

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
