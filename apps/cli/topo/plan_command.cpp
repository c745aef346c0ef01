// mtl-topo plan: finds the fastest layout of a run on given devices.
#include <algorithm>
#include <array>
#include <csignal>
#include <string>

#include "base/files.h"
#include "base/heeded_signals.h"
#include "base/inputs.h"
#include "base/str.h"
#include "cli/flags/layout_flags.h"
#include "cli/flags/precision_flags.h"
#include "cli/flags/update_rule_flags.h"
#include "cli/run_main.h"
#include "cli/topo/commands.h"
#include "cli/topo/planned_run.h"
#include "layout/schedule.h"
#include "planner/layout_report.h"
#include "planner/plan_report.h"

namespace mtl {

namespace {

/// The values of all flags.
struct PlanCommand : PlannedRun {
  FixedLayout fixed;
  bool recompute_activations = false;
};

/// True for names of scripts: with an ending of bash or of sbatch, or without one.
bool is_script(const std::string& file) {
  const std::string ending = fs::path(file).extension().string();
  return file != "-" && std::ranges::count(std::array{"", ".sh", ".bash", ".sbatch", ".slurm"}, ending) > 0;
}

constexpr const char* kFixed = "Fixed layout";

/// Adds the flags that fix what is searched otherwise.
void add_fixed_flags(Flags& flags, FixedLayout& fixed) {
  flags.section(kFixed);
  flags.add("--tensor-model-parallel-size", &fixed.tensor, "N", "only layouts with N ranks that share each layer",
            within({1, kLargestWorld}));
  flags.add("--pipeline-model-parallel-size", &fixed.pipeline, "N", "only layouts with N pipeline stages",
            within({1, kLargestWorld}));
  flags.add("--context-parallel-size", &fixed.context, "N", "only layouts with N ranks that share each sequence",
            within({1, kLargestWorld}));
  flags.add("--schedule,--pipeline-schedule", &fixed.schedule, "NAME", "only this schedule for pipelines",
            one_of(texts_of(kSchedules, &ScheduleTraits::name)));
  flags.add("--num-virtual-stages-per-pipeline-rank", &fixed.chunks, "N",
            "only pipelines with N chunks of layers per stage", within({1, kMostLayers}));
  flags.add("--zero-stage", &fixed.zero_stage, "N", "only this ZeRO stage, where there are several replicas",
            within({0, 3}));
  flags.add("--micro-batch-size", &fixed.micro_batch, "N", "only micro-batches of N samples", within(kBatchSizes));
  flags.add("--recompute-granularity", &fixed.recompute, "NAME",
            "only layouts that recompute nothing, attention or whole layers in backward",
            one_of({"none", "selective", "full"}));
}

void add_plan_flags(Flags& flags, PlanCommand& command) {
  TrainOptions& run = command.options;
  add_device_flags(flags, command);
  flags.add("--host-memory", &command.devices.host_memory, "SIZE",
            "memory of one node's host that its ranks may use, as in 1000GB (default: not limited)",
            only_with("GPUs: the memory of ranks on CPUs is --device-memory",
                      [&command] { return !command.devices.is_on_cpu(); }));
  add_model_flags(flags, command);
  flags.section("Precision");
  add_precision_flags(flags, run.precision);
  add_update_rule_flag(flags, run.optimizer);
  flags.section("Batch");
  flags.add("--global-batch-size", &run.batch.global_batch_size, "N", "samples per step, over all ranks", required,
            at_least(1));
  add_fixed_flags(flags, command.fixed);
  flags.add_switch("--recompute-activations", command.recompute_activations,
                   "same as --recompute-granularity selective");
  flags.section("Output");
  flags.add_switch("--json", command.json, "print the plan as JSON");
  flags.add("--output,-o", &command.output, "FILE",
            "also write a script that starts the best layout, or draw its step if FILE ends in .svg");
  flags.check([&flags, &command] {
    read_planned_run(flags, command);
    if (command.recompute_activations) command.fixed.recompute = "selective";
    check_data_options(command.options.data, std::bind_front(&Flags::problem, &flags));
    if (command.devices.is_on_cpu() && !command.devices.device_memory)
      flags.problem("--device-memory", "is required: the memory of a host for each of its ranks");
    check_gigabytes("--host-memory", command.devices.host_memory, std::bind_front(&Flags::problem, &flags));
    if (command.output && !is_script(*command.output) && !ends_with(*command.output, ".svg"))
      flags.problem("--output " + *command.output,
                    "does not end in .sh, for a script, or .svg, for a drawing; --json prints the plan as JSON");
    if (command.output && is_script(*command.output) && command.loaded && !is_directory(command.load))
      flags.problem("--load " + command.load,
                    "describes a model that mtl-train cannot load, so there is no script; "
                    "describe the model by flags, or leave out --output");
    resolve_model(flags, command);
  });
  accept_training_command(flags);
}

/// Keeps INT from ending the process until the object is destroyed. A second INT while one is pending has no effect.
class HeldInterrupt {
 public:
  HeldInterrupt() { ::sigprocmask(SIG_BLOCK, &signals_, &before_); }
  ~HeldInterrupt() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }  // ends the process if INT has arrived
  HeldInterrupt(const HeldInterrupt&) = delete;

  bool has_arrived() const {
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGINT) == 1;
  }

 private:
  sigset_t signals_ = heeded_signals({SIGINT}), before_;
};

void write_plan(const PlanCommand& command, const Flags& flags, Console& console) {
  const HeldInterrupt interrupt;
  if (command.output) check_output({flags.config_file()}, *command.output);
  PlanRequest request = command.request();
  request.fixed = command.fixed;
  request.fixed.flags = flags.given_flags({kFixed});
  console.progress("listing layouts");
  const LayoutPlans plans = plan_layouts(request, 5, [&](const LayoutPlans& so_far) {
    console.progress(progress_text(so_far));
    return !interrupt.has_arrived();
  });
  console.end_progress();
  if (!plans.is_complete && plans.best.empty()) return console.warn("interrupted before a layout that fits was found");
  print_out(command.json ? plan_json(plans, request).dump(2) + "\n" : plan_text(plans, request));
  if (!plans.is_complete) {
    if (command.output) console.warn(cat("interrupted, so ", *command.output, " is not written"));
    return flush_out();
  }
  require_layout(plans, request, command.devices);
  if (!command.output) return;
  const std::string set_aside = command.loaded ? "" : "--load";
  const std::vector<std::string> given = flags.given_flags({"Model", "Precision"}, set_aside);
  const bool draws = ends_with(*command.output, ".svg");
  write_output(command.output, draws ? layout_svg(plans.best[0], request) : plan_script(plans, request, given),
               flags.program());
}

}  // namespace

int run_plan_command(int argc, const char* const* argv) {
  PlanCommand command;
  Flags flags("mtl-topo plan", "find the fastest layout of a training run on given devices");
  add_plan_flags(flags, command);
  return run_main(flags, argc, argv, [&](Console& console) { write_plan(command, flags, console); });
}

}  // namespace mtl
