// The devices and the links of a run that is planned or timed: as flags describe them, or a profile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/operator_times.h"
#include "planner/plan_request.h"

namespace mtl {

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
