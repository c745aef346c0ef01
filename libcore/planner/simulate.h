// Simulates a recorded step of a pipeline's stages on a machine: gives their events the times in machine.h and links.h,
// and plays them (layout/schedule_times.h).
//
// All ranks of a stage do the same at the same time, so one of each stage is simulated. A group has a lane. Ranks on
// CPUs compute nothing while they copy what an operation sends inside their node. Copies to and from the host's memory,
// or files, take place beside an action's operators, and take longer only if the link or the disk does. Two steps are
// played, and the second is timed, because gathers in the background end there.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "layout/schedule_times.h"
#include "planner/machine.h"
#include "planner/step_trace.h"

namespace mtl {

/// StageTime::waits has waits for groups by their names, and for copies between the device and host memory, or files,
/// by these.
inline constexpr const char *kHost = "host", *kFiles = "files";

/// In milliseconds.
struct StepTime {
  double ms = 0;
  std::vector<StageTime> stages;
  std::set<std::string> unmeasured = {};  // operators that the machine's profile does not have
};

/// `traces` has one rank's step for every stage; `layout` is one of theirs. Sets `timeline`, in milliseconds, unless it
/// is null. Throws Error(failure) on deadlock.
StepTime simulate_step(const std::vector<StepTrace>& traces, const Layout& layout, int node_size,
                       const Machine& machine, bool tf32, Timeline* timeline = nullptr);

}  // namespace mtl
