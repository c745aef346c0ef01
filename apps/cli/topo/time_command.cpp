// mtl-topo time: tells how long a step of a given layout takes on given devices.
#include <functional>

#include "base/inputs.h"
#include "base/str.h"
#include "cli/flags/data_flags.h"
#include "cli/flags/layout_flags.h"
#include "cli/flags/precision_flags.h"
#include "cli/flags/update_rule_flags.h"
#include "cli/run_main.h"
#include "cli/topo/commands.h"
#include "cli/topo/planned_run.h"
#include "planner/layout_report.h"
#include "planner/plan_report.h"

namespace mtl {

namespace {

/// Resolves the model, and reports what mtl-train would refuse.
void check_run(Flags& flags, PlannedRun& command) {
  read_planned_run(flags, command);
  const std::string& folder = command.options.parallel.offload_optimizer;
  if (!folder.empty() && !command.devices.disk_gbs)
    flags.problem("--offload-optimizer " + folder, "needs --disk-gbs, the rate of the files' disk");
  check_options(command.options, std::bind_front(&Flags::problem, &flags));
  resolve_model(flags, command);
}

void add_time_flags(Flags& flags, PlannedRun& command) {
  TrainOptions& run = command.options;
  add_device_flags(flags, command);
  add_model_flags(flags, command);
  add_mask_flag(flags, run.data);
  flags.section("Precision");
  add_precision_flags(flags, run.precision);
  add_update_rule_flag(flags, run.optimizer);
  flags.section("Batch");
  add_batch_size_flags(flags, run.batch);
  flags.section("Layout");
  add_grid_flags(flags, run.parallel);
  add_schedule_flag(flags, run.parallel, "--schedule,--pipeline-schedule");
  add_interleaving_flags(flags, run.parallel);
  add_stage_flags(flags, run.parallel);
  add_sharing_flags(flags, run.parallel);
  add_recompute_flags(flags, run.parallel);
  add_offload_flags(flags, run.parallel, [&command] { return !command.devices.is_on_cpu(); });
  flags.section("Output");
  flags.add_switch("--json", command.json, "print the result as JSON");
  flags.add("--output,-o", &command.output, "FILE.svg", "also draw the step");
  flags.check([&flags, &command] {
    if (command.output && !ends_with(*command.output, ".svg"))
      flags.problem("--output " + *command.output, "is not a drawing; choose a name that ends in .svg");
    check_run(flags, command);
  });
  accept_training_command(flags);
}

void write_time(const PlannedRun& command, const Flags& flags) {
  if (command.output) check_output({flags.config_file()}, *command.output);
  const PlanRequest request = command.request();
  const Candidate layout = time_layout(request);
  print_out(command.json ? time_json(layout, request).dump(2) + "\n" : time_text(layout, request));
  if (command.output) write_output(command.output, layout_svg(layout, request), flags.program());
}

}  // namespace

int run_time_command(int argc, const char* const* argv) {
  PlannedRun command;
  Flags flags("mtl-topo time", "tell how long a step of a layout takes on given devices");
  add_time_flags(flags, command);
  return run_main(flags, argc, argv, [&](Console&) { write_time(command, flags); });
}

}  // namespace mtl
