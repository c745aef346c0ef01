// The result of a search for layouts, as text, as JSON, and as a script that starts the run; and that of one layout.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "planner/plan_devices.h"
#include "planner/plan_layouts.h"

namespace mtl {

/// One line: how far a search has come.
std::string progress_text(const LayoutPlans& so_far);
std::string plan_text(const LayoutPlans& plans, const PlanRequest& request);
Json plan_json(const LayoutPlans& plans, const PlanRequest& request);
/// Throws Error(failure) unless a layout was found: names the flags that exclude all layouts, or settings with which
/// the layout that needs the least memory fits. `devices` made the request.
void require_layout(const LayoutPlans& plans, const PlanRequest& request, const PlanDevices& devices);
std::string time_text(const Candidate& layout, const PlanRequest& request);
Json time_json(const Candidate& layout, const PlanRequest& request);
/// Returns a bash script that starts mtl-train in the best layout: with mpirun on one node, or as a Slurm job on
/// several. `given` are the flags of the model and the run, which the script repeats; it appends its own arguments.
std::string plan_script(const LayoutPlans& plans, const PlanRequest& request, const std::vector<std::string>& given);

}  // namespace mtl
