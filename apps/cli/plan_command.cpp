#include "cli/plan_command.h"

#include <functional>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/interrupt_guard.h"
#include "base/str.h"
#include "cli/data_flags.h"
#include "cli/layout_flags.h"
#include "cli/precision_flags.h"
#include "cli/run_main.h"
#include "cli/tokenizer_flags.h"
#include "layout/schedule.h"
#include "planner/hardware_file.h"
#include "planner/plan_report.h"

namespace mtl {

namespace {

/// The values of all flags.
struct PlanCommand {
  TrainOptions run;
  GptConfig config;
  std::optional<std::string> hardware, profile, device_memory, host_memory, output;
  FixedLayout fixed;
  std::optional<double> inside_gbs, between_gbs, inside_us, between_us;
  bool json = false;

  std::shared_ptr<const OperatorTimes> times = nullptr;  // of `profile`

  bool is_on_cpu() const { return times != nullptr && starts_with(times->device().name, "CPU"); }
  bool has_file() const { return hardware && ends_with(*hardware, ".json"); }
  /// Returns the known GPUs' machine, or null if there is none.
  const Machine* gpus() const {
    return hardware ? find_machine(*hardware) : times != nullptr ? find_machine(times->device().name) : nullptr;
  }
  Machine machine() const {
    Machine out = is_on_cpu()  ? Machine{.device = times->device(),
                                         .devices_per_node = static_cast<int>(run.parallel.world),
                                         .sources = {"links: as given"}}
                  : has_file() ? parse_hardware(read_regular_file(*hardware), *hardware)
                               : *gpus();
    if (times == nullptr) return out;
    std::erase_if(out.sources, [](const std::string& source) {
      return starts_with(source, "efficiency.") || starts_with(source, "launch ");
    });
    out.sources.push_back("operators: " + *profile);
    out.origin = *profile;
    out.use(times, precision_of(run.precision).compute, run.tf32);
    return out;
  }

  PlanRequest request() const {
    PlanRequest out{.run = run, .config = config, .machine = machine()};
    out.node_size = static_cast<int>(run.parallel.gpus_per_node.value_or(out.machine.devices_per_node));
    out.device_bytes = device_memory ? double(*parse_gigabytes(*device_memory)) : out.machine.device_gb * 1e9;
    if (host_memory) out.host_bytes = double(*parse_gigabytes(*host_memory));
    out.fixed = fixed;
    Links& links = out.machine.links;
    links.inside_gbs = inside_gbs.value_or(links.inside_gbs);
    links.between_gbs = between_gbs.value_or(links.between_gbs);
    links.inside_us = inside_us.value_or(links.inside_us);
    links.between_us = between_us.value_or(links.between_us);
    return out;
  }

  /// Parses "80GB" or "80".
  static std::optional<double> parse_gigabytes(std::string_view text) {
    if (ends_with(text, "GB")) text.remove_suffix(2);
    const std::optional<double> number = parse_float(text);
    if (!number || !(*number > 0 && *number <= 1e6)) return std::nullopt;
    return *number * 1e9;
  }
};

std::string machine_names() {
  std::vector<std::string> names;
  for (const Machine& machine : known_machines()) names.push_back(machine.device.name);
  return join(names, ", ");
}

/// Adds the flags that fix what is searched otherwise.
void add_fixed_flags(Flags& flags, FixedLayout& fixed) {
  flags.section("Fixed layout");
  flags.add("--tensor-model-parallel-size", &fixed.tensor, "N", "only layouts with N ranks that share each layer")
      .within({1, kLargestWorld});
  flags.add("--pipeline-model-parallel-size", &fixed.pipeline, "N", "only layouts with N pipeline stages")
      .within({1, kLargestWorld});
  flags.add("--context-parallel-size", &fixed.context, "N", "only layouts with N ranks that share each sequence")
      .within({1, kLargestWorld});
  flags.add("--schedule,--pipeline-schedule", &fixed.schedule, "NAME", "only this schedule for pipelines")
      .one_of({kScheduleNames.begin(), kScheduleNames.end()});
  flags
      .add("--num-virtual-stages-per-pipeline-rank", &fixed.chunks, "N",
           "only pipelines with N chunks of layers per stage")
      .within({1, kMostLayers});
  flags.add("--zero-stage", &fixed.zero_stage, "N", "only this ZeRO stage, where there are several replicas")
      .within({0, 3});
  flags.add("--micro-batch-size", &fixed.micro_batch, "N", "only micro-batches of N samples").within(kBatchSizes);
  flags
      .add("--recompute-granularity", &fixed.recompute, "NAME",
           "only layouts that recompute nothing, attention or whole layers in backward")
      .one_of({"none", "selective", "full"});
}

/// Reports what is missing to know the devices and their links.
void check_machine(Flags& flags, const PlanCommand& command) {
  const auto require_given = [&](bool is_given, const std::string& flag, const std::string& what) {
    if (!is_given) flags.problem(flag, "is required: " + what);
  };
  const DType compute = precision_of(command.run.precision).compute;
  if (command.times != nullptr && !command.times->has_products(compute))
    flags.problem("--profile " + *command.profile,
                  cat("has no matrix products in ", name_of(compute), "; profile a run of the precision to plan for"));
  if (command.is_on_cpu()) {
    if (command.hardware) flags.problem("--hardware " + *command.hardware, "contradicts --profile, which is of a CPU");
    require_given(command.device_memory.has_value(), "--device-memory", "the memory of a host for each of its ranks");
    require_given(command.inside_gbs && command.inside_us, "--inside-gbs and --inside-us",
                  "a profile of a CPU has no links");
    const std::int64_t world = command.run.parallel.world;
    if (command.run.parallel.gpus_per_node.value_or(world) < world)
      require_given(command.between_gbs && command.between_us, "--between-gbs and --between-us",
                    "a profile of a CPU has no links");
  } else if (command.has_file()) {
    return;
  } else if (command.hardware && command.gpus() == nullptr) {
    flags.problem("--hardware " + *command.hardware,
                  "is not known; use one of " + machine_names() + ", or describe it in a file NAME.json");
  } else {
    require_given(command.gpus() != nullptr, "--hardware", "the GPUs' model, one of " + machine_names());
  }
}

void add_plan_flags(Flags& flags, PlanCommand& command) {
  TrainOptions& run = command.run;
  flags.section("Devices");
  add_world_size_flag(flags, run.parallel, "number of ranks").required();
  add_node_size_flag(flags, run.parallel, "ranks per node (default: 8)");
  flags.add("--hardware", &command.hardware, "GPU", cat("the GPUs' model, or a FILE.json: ", machine_names()));
  flags.add("--profile", &command.profile, "FILE",
            "rankN.json of mtl-train --profile on one rank: operators take as long as there");
  flags.add("--device-memory", &command.device_memory, "SIZE", "memory of one GPU that the run may use, as in 80GB");
  flags
      .add("--host-memory", &command.host_memory, "SIZE",
           "memory of one node's host that its ranks may use, as in 1000GB (default: not limited)")
      .only_with("GPUs: the memory of ranks on CPUs is --device-memory", [&command] { return !command.is_on_cpu(); });
  flags.add("--inside-gbs", &command.inside_gbs, "GB/S", "bandwidth of a GPU's links inside its node, in one direction")
      .above(0);
  flags.add("--between-gbs", &command.between_gbs, "GB/S", "bandwidth of a GPU's link to other nodes, in one direction")
      .above(0);
  flags.add("--inside-us", &command.inside_us, "US", "latency inside a node, in microseconds").at_least(0);
  flags.add("--between-us", &command.between_us, "US", "latency between nodes, in microseconds").at_least(0);
  flags.section("Model");
  add_architecture_flags(flags, run, [] { return false; });
  add_vocab_size_flag(flags, run.tokenizer.vocab_size, "tokens in the vocabulary, before padding");
  add_length_flag(flags, run.data);
  flags.section("Precision");
  add_precision_flags(flags, run.precision);
  flags.section("Batch");
  flags.add("--global-batch-size", &run.batch.global_batch_size, "N", "samples per step, over all ranks")
      .required()
      .at_least(1);
  add_fixed_flags(flags, command.fixed);
  flags.section("Output");
  flags.add_switch("--json", command.json, "print the plan as JSON");
  flags.add("--output,-o", &command.output, "FILE", "also write a script that starts mtl-train in the best layout");
  flags.check([&flags, &command] {
    TrainOptions& options = command.run;
    options.parallel.world = options.parallel.plan_world.value_or(1);
    options.threads = 1;
    options.dry_run = true;
    if (command.profile) command.times = std::make_shared<const OperatorTimes>(OperatorTimes::read(*command.profile));
    options.device = command.is_on_cpu() ? Device::cpu : Device::cuda;
    check_machine(flags, command);
    for (const auto& [flag, size] :
         {std::pair("--device-memory ", command.device_memory), std::pair("--host-memory ", command.host_memory)})
      if (size && !PlanCommand::parse_gigabytes(*size))
        flags.problem(flag + *size, "is not a number of GB above 0, as in 80GB");
    if (flags.problem_count() == 0)
      command.config = resolve_config(options, {}, options.tokenizer.vocab_size.value_or(50257),
                                      std::bind_front(&Flags::problem, &flags));
  });
}

/// Returns the flags of the model and the run that were given, as words for a shell.
std::vector<std::string> repeated_flags(const std::vector<std::string>& words) {
  const std::vector<std::string> left_out = {"--world-size",
                                             "--gpus-per-node",
                                             "--hardware",
                                             "--profile",
                                             "--device-memory",
                                             "--host-memory",
                                             "--inside-gbs",
                                             "--between-gbs",
                                             "--inside-us",
                                             "--between-us",
                                             "--global-batch-size",
                                             "--json",
                                             "--output",
                                             "-o",
                                             "--tensor-model-parallel-size",
                                             "--pipeline-model-parallel-size",
                                             "--context-parallel-size",
                                             "--schedule",
                                             "--pipeline-schedule",
                                             "--num-virtual-stages-per-pipeline-rank",
                                             "--zero-stage",
                                             "--micro-batch-size",
                                             "--recompute-granularity"};
  std::vector<std::string> out;
  bool keeps = false;
  for (const std::string& word : words) {
    if (starts_with(word, "-"))
      keeps = std::ranges::none_of(
          left_out, [&](const std::string& flag) { return word == flag || starts_with(word, flag + "="); });
    if (keeps) out.push_back(word);
  }
  return out;
}

void write_plan(const PlanCommand& command, const std::vector<std::string>& words, const Flags& flags) {
  const PlanRequest request = command.request();
  const LayoutPlans plans = plan_layouts(request);
  print_out(command.json ? plan_json(plans, request).dump(2) + "\n" : plan_text(plans, request));
  if (plans.candidates == 0 && !request.fixed.flags().empty())
    fail_at(Exit::failure, join(request.fixed.flags(), " "), "no layout of ", request.run.parallel.world,
            " ranks is like this; give fewer of these flags, or other values");
  if (plans.candidates == 0)
    fail_at(Exit::failure, cat("--world-size ", request.run.parallel.world),
            "the ranks cannot be divided: no tensor-parallel and pipeline sizes divide both them and the model's heads "
            "and layers, such that the data-parallel ranks divide --global-batch-size ",
            *request.run.batch.global_batch_size, "; change one of the two");
  if (plans.best.empty())
    fail_at(Exit::failure,
            command.device_memory ? "--device-memory " + *command.device_memory : request.machine.device.name,
            "no layout fits in ", format("%.4g", request.device_bytes * 1e-9), " GB",
            command.host_memory ? cat(" and --host-memory ", *command.host_memory) : "",
            "; use more ranks, or a smaller --seq-length or --model");
  if (!command.output) return;
  InterruptGuard guard(flags.program());
  write_file_atomic(*command.output, plan_script(plans, request, repeated_flags(words)), &guard);
}

}  // namespace

int run_plan_command(int argc, const char* const* argv) {
  PlanCommand command;
  Flags flags("mtl-topo plan", "find the fastest layout of a training run on given devices");
  add_plan_flags(flags, command);
  const std::vector<std::string> words(argv + 1, argv + argc);
  return run_main(flags, argc, argv, [&](Console&) { write_plan(command, words, flags); });
}

}  // namespace mtl
