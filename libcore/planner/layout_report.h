// What a plan says of one simulated layout: in words, as numbers, and as tables and JSON of its stages and ranks.
#pragma once

#include <set>
#include <string>

#include "base/json.h"
#include "planner/plan_layouts.h"

namespace mtl {

/// Returns "tp 2, dp 4, ZeRO-1, micro-batch 2".
std::string layout_text(const Candidate& candidate);
/// Returns what saves memory and how much memory of the host that takes, or "".
std::string savings_text(const Candidate& candidate);
/// Returns both.
std::string whole_layout_text(const Candidate& candidate);

/// How the mean stage spends a step: computing, waiting for links, and idle in the schedule. They add up to 1.
struct StepShares {
  double compute = 0, links = 0, idle = 0;
};
StepShares step_shares(const StepTime& time);
double tokens_per_second(const Candidate& candidate);
/// Returns the FLOPs of method A (run/flops.h) as a share of the devices' peak.
double model_flops_utilization(const Candidate& candidate, const PlanRequest& request);

/// Returns the ranks, and the rates of their devices and links: the rest of a line that the caller begins, and more.
std::string machine_text(const PlanRequest& request, const std::set<std::string>& unmeasured);
/// Adds the same to a JSON object.
void set_machine(Json& out, const PlanRequest& request, const std::set<std::string>& unmeasured);

/// Returns a table of how the stages spend the step, and the memory of all ranks by category.
std::string layout_tables(const Candidate& candidate, const PlanRequest& request);
/// Returns a drawing of the step (timeline_svg.h). The candidate must have been simulated.
std::string layout_svg(const Candidate& candidate, const PlanRequest& request);
/// Returns flags and memory and, if the candidate was simulated, what every stage computes and waits for.
Json layout_json(const Candidate& candidate, const PlanRequest& request);

}  // namespace mtl
