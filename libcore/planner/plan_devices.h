// The devices and the links of a run that is planned or timed: as flags describe them, or a profile.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/machine.h"
#include "planner/operator_times.h"
#include "run/layout_space.h"

namespace mtl {

/// What is planned: a run, and the devices and links that it is planned for.
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

struct PlanDevices {
  std::optional<std::string> hardware = {};       // a name in machine_names(), or a FILE.json
  std::optional<std::string> efficiency = {};     // "published" or "mtl"; absent: mtl's where it is known
  std::optional<std::string> profile = {};        // rankN.json, whose device the run has
  std::optional<std::string> device_memory = {};  // "80GB" or "80"
  std::optional<std::string> host_memory = {};    // likewise; absent: no limit
  std::optional<double> inside_gbs = {}, between_gbs = {}, inside_us = {}, between_us = {}, host_gbs = {};
  std::optional<double> disk_gbs = {};
  std::shared_ptr<const OperatorTimes> times = nullptr;  // of `profile`, once check_devices() has read it

  bool is_on_cpu() const;
  /// Returns the run with these devices. Without `device_memory`, they have their GPU's, or on CPUs none is known: 0.
  /// Throws what read_hardware() throws, and Error(usage) if the efficiency of mtl's kernels is not known.
  PlanRequest request(const TrainOptions& run, const GptConfig& config) const;
};

/// Returns the names of the known GPUs.
std::vector<std::string> machine_names();

/// Reports a size that is not a number of GB.
void check_gigabytes(const std::string& flag, const std::optional<std::string>& size, const ReportProblem& report);
/// Reads the profile, sets run.device, and reports what is missing to know the devices and their links. run.parallel
/// and run.precision must be set. Leaves host_memory to check_gigabytes(). Throws what OperatorTimes::read() throws.
void check_devices(PlanDevices& devices, TrainOptions& run, const ReportProblem& report);

}  // namespace mtl
