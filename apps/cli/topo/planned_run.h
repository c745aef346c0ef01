// A run that mtl-topo plans or times, as flags: its devices and links, and its model.
#pragma once

#include <optional>
#include <string>

#include "cli/flags.h"
#include "planner/plan_devices.h"

namespace mtl {

struct PlannedRun {
  TrainOptions options;
  PlanDevices devices;
  std::optional<std::string> output;
  bool json = false;                // print JSON
  std::string load;                 // a config.json that describes the model, or its folder; empty: flags do
  std::optional<GptConfig> loaded;  // from `load`
  GptConfig config;                 // set by resolve_model()

  PlanRequest request() const { return devices.request(options, config); }
};

/// Declares the section of devices, with --world-size and --gpus-per-node.
void add_device_flags(Flags& flags, PlannedRun& run);
/// Declares the section of the model.
void add_model_flags(Flags& flags, PlannedRun& run);
/// Accepts the command line of a training run: sets aside the flags of mtl-train that these programs lack.
void accept_training_command(Flags& flags);

/// For Flags::check, before all other checks. Reads the config.json and the profile, sets run.options for a plan, and
/// reports what check_devices() does. If there is no config.json, as in the folder of a run that has not begun, says
/// that --load is set aside.
void read_planned_run(Flags& flags, PlannedRun& run);
/// For Flags::check, after all other checks. Resolves the model, and reports what is missing or cannot be built. Does
/// nothing if flags have a problem.
void resolve_model(Flags& flags, PlannedRun& run);

}  // namespace mtl
