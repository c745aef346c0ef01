// What is planned: a run, and the devices and links that it is planned for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "planner/machine.h"
#include "run/layout_space.h"

namespace mtl {

struct PlanRequest {
  TrainOptions run;  // the world size, the batches and everything that is the same in all layouts
  GptConfig config;
  Machine machine;
  int node_size = 8;
  double device_bytes = 0;                                      // of one device, for the plan
  double host_bytes = std::numeric_limits<double>::infinity();  // of one node's host
  FixedLayout fixed = {};

  std::int64_t nodes() const { return (run.parallel.world + node_size - 1) / node_size; }
  /// Returns how many ranks a full node has.
  double ranks_per_node() const { return double(std::min<std::int64_t>(node_size, run.parallel.world)); }
};

/// Returns the choices that mtl-train can run, layout by layout. The optimizer's state may be in files if the machine
/// has a disk.
inline std::vector<LayoutChoice> layout_choices(const PlanRequest& request) {
  return layout_choices(request.run, request.config, request.machine.links.disk_gbs > 0, request.fixed);
}

}  // namespace mtl
