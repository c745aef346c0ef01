// The devices, the links and the model of a run that mtl-topo plans or times, as flags.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/flags.h"
#include "planner/layout_space.h"
#include "planner/operator_times.h"

namespace mtl {

struct PlanDevices {
  std::optional<std::string> hardware, profile, device_memory;
  std::optional<double> inside_gbs, between_gbs, inside_us, between_us, host_gbs, disk_gbs;
  std::shared_ptr<const OperatorTimes> times = nullptr;  // of `profile`

  bool is_on_cpu() const;
  /// Returns the run with these devices. Without `device_memory`, they have their GPU's, or on CPUs none is known: 0.
  PlanRequest request(const TrainOptions& run, const GptConfig& config) const;
};

/// Returns the bytes of "80GB" or "80", or nothing if it is not a number in kRateBounds.
std::optional<double> parse_gigabytes(std::string_view text);
/// Reports a size that parse_gigabytes() does not understand.
void check_gigabytes(Flags& flags, const std::string& flag, const std::optional<std::string>& size);

/// Declares the section of devices, with --world-size and --gpus-per-node, which set `run`.
void add_device_flags(Flags& flags, PlanDevices& devices, TrainOptions& run);
/// Reads the profile, sets run.device, and reports what is missing to know the devices and their links. run.parallel
/// and run.precision must have been parsed.
void check_devices(Flags& flags, PlanDevices& devices, TrainOptions& run);
/// Accepts the command line of a training run: sets aside the flags of mtl-train that these programs lack.
void accept_training_command(Flags& flags);

/// The model of a plan: described by flags, or by the config.json that --load names.
struct PlanModel {
  std::string load;
  std::optional<GptConfig> loaded;

  void add_flag(Flags& flags);
  /// Reads the config.json. If there is none, as in the folder of a run that has not begun, says that the flag is set
  /// aside. Must be called before the other checks.
  void read(Flags& flags);
  /// Returns the run's model, and reports what is missing or cannot be built. Other flags must have no problem.
  GptConfig check(Flags& flags, const TrainOptions& run) const;
};

}  // namespace mtl
