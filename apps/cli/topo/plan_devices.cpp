#include "cli/topo/plan_devices.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/files.h"
#include "base/str.h"
#include "cli/flags/layout_flags.h"
#include "cli/train/train_flags.h"
#include "models/hf_config.h"
#include "planner/hardware_file.h"

namespace mtl {

namespace {

bool has_file(const PlanDevices& devices) { return devices.hardware && ends_with(*devices.hardware, ".json"); }

Machine read_hardware(const std::string& path) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  if (const std::uint64_t bytes = file_size(path); bytes > kMostBytes)
    fail_at(Exit::bad_data, path, "has ", human_bytes(bytes), ", too many for a hardware file; see share/hardware");
  return parse_hardware(read_regular_file(path), path);
}

/// Returns the known GPUs' machine, or null if there is none.
const Machine* known_machine(const PlanDevices& devices) {
  return devices.hardware           ? find_machine(*devices.hardware)
         : devices.times != nullptr ? find_machine(devices.times->device().name)
                                    : nullptr;
}

Machine machine_of(const PlanDevices& devices, const TrainOptions& run) {
  Machine out = devices.is_on_cpu() ? Machine{.device = devices.times->device(),
                                              .devices_per_node = static_cast<int>(run.parallel.world),
                                              .sources = {"links: as given"}}
                : has_file(devices) ? read_hardware(*devices.hardware)
                                    : *known_machine(devices);
  if (devices.times == nullptr) return out;
  std::erase_if(out.sources, [](const std::string& source) {
    return starts_with(source, "efficiency.") || starts_with(source, "launch ");
  });
  out.sources.push_back("operators: " + *devices.profile);
  out.origin = *devices.profile;
  out.use(devices.times, precision_of(run.precision).compute, run.tf32);
  return out;
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const Machine& machine : known_machines()) names.push_back(machine.device.name);
  return names;
}

}  // namespace

bool PlanDevices::is_on_cpu() const { return times != nullptr && starts_with(times->device().name, "CPU"); }

PlanRequest PlanDevices::request(const TrainOptions& run, const GptConfig& config) const {
  PlanRequest out{.run = run, .config = config, .machine = machine_of(*this, run)};
  out.node_size = static_cast<int>(run.parallel.gpus_per_node.value_or(out.machine.devices_per_node));
  out.device_bytes = device_memory ? *parse_gigabytes(*device_memory) : out.machine.device_gb * 1e9;
  Links& links = out.machine.links;
  links.inside_gbs = inside_gbs.value_or(links.inside_gbs);
  links.between_gbs = between_gbs.value_or(links.between_gbs);
  links.inside_us = inside_us.value_or(links.inside_us);
  links.between_us = between_us.value_or(links.between_us);
  links.host_gbs = host_gbs.value_or(links.host_gbs);
  links.by_core = is_on_cpu();
  if (disk_gbs) links.disk_gbs = *disk_gbs / double(std::min<std::int64_t>(out.node_size, run.parallel.world));
  return out;
}

std::optional<double> parse_gigabytes(std::string_view text) {
  if (ends_with(text, "GB")) text.remove_suffix(2);
  const std::optional<double> number = parse_float(text);
  if (!number || !kRateBounds.objection(*number).empty()) return std::nullopt;
  return *number * 1e9;
}

void check_gigabytes(Flags& flags, const std::string& flag, const std::optional<std::string>& size) {
  if (size && !parse_gigabytes(*size))
    flags.problem(cat(flag, " ", *size), "is not a number of GB from 1e-6 to 1e9, as in 80GB");
}

void add_device_flags(Flags& flags, PlanDevices& devices, TrainOptions& run) {
  flags.section("Devices");
  add_world_size_flag(flags, run.parallel, "number of ranks").required();
  add_node_size_flag(flags, run.parallel, "ranks per node (default: 8)");
  flags.add("--hardware", &devices.hardware, "GPU", "the GPUs' model, or a FILE.json").suggest(machine_names());
  flags.add("--profile", &devices.profile, "FILE",
            "rankN.json of mtl-train --profile on one rank: operators take as long as there");
  flags.add("--device-memory", &devices.device_memory, "SIZE", "memory of one GPU that the run may use, as in 80GB");
  flags.add("--inside-gbs", &devices.inside_gbs, "GB/S", "bandwidth of a GPU's links inside its node, in one direction")
      .within(kRateBounds);
  flags.add("--between-gbs", &devices.between_gbs, "GB/S", "bandwidth of a GPU's link to other nodes, in one direction")
      .within(kRateBounds);
  flags.add("--inside-us", &devices.inside_us, "US", "latency inside a node, in microseconds").within(kLatencyBounds);
  flags.add("--between-us", &devices.between_us, "US", "latency between nodes, in microseconds").within(kLatencyBounds);
  flags.add("--host-gbs", &devices.host_gbs, "GB/S", "bandwidth of a GPU's link to its host's memory, in one direction")
      .within(kRateBounds)
      .only_with("on the CPU, whose memory is the host's", [&devices] { return !devices.is_on_cpu(); });
  flags
      .add("--disk-gbs", &devices.disk_gbs, "GB/S",
           "rate at which a node's disk reads and, at the same time, writes: optimizer states may be in files")
      .within(kRateBounds);
}

void check_devices(Flags& flags, PlanDevices& devices, TrainOptions& run) {
  if (devices.profile) devices.times = std::make_shared<const OperatorTimes>(OperatorTimes::read(*devices.profile));
  run.device = devices.is_on_cpu() ? Device::cpu : Device::cuda;
  if (devices.is_on_cpu()) run.threads = devices.times->threads();
  check_gigabytes(flags, "--device-memory", devices.device_memory);
  const auto require_given = [&](bool is_given, const std::string& flag, const std::string& what) {
    if (!is_given) flags.problem(flag, "is required: " + what);
  };
  const DType compute = precision_of(run.precision).compute;
  if (devices.times != nullptr && !devices.times->has_products(compute))
    flags.problem("--profile " + *devices.profile,
                  cat("has no matrix products in ", name_of(compute), "; profile a run of the precision to plan for"));
  if (devices.is_on_cpu()) {
    if (devices.hardware) flags.problem("--hardware " + *devices.hardware, "contradicts --profile, which is of a CPU");
    require_given(devices.inside_gbs && devices.inside_us, "--inside-gbs and --inside-us",
                  "a profile of a CPU has no links");
    const std::int64_t world = run.parallel.world;
    if (run.parallel.gpus_per_node.value_or(world) < world)
      require_given(devices.between_gbs && devices.between_us, "--between-gbs and --between-us",
                    "a profile of a CPU has no links");
  } else if (has_file(devices)) {
    return;
  } else if (devices.hardware && known_machine(devices) == nullptr) {
    flags.problem("--hardware " + *devices.hardware,
                  "is not known; use one of " + join(machine_names(), ", ") + ", or describe it in a file NAME.json");
  } else {
    require_given(known_machine(devices) != nullptr, "--hardware",
                  "the GPUs' model, one of " + join(machine_names(), ", "));
  }
}

void accept_training_command(Flags& flags) {
  TrainOptions options;
  const RunStart start;
  Flags training("mtl-train", "");
  add_train_flags(training, options, start);
  flags.set_aside(training, {"precision", "memory", "architecture"},
                  "are set aside, because a plan chooses them or does not depend on them");
}

void PlanModel::add_flag(Flags& flags) {
  flags.add("--load", &load, "PATH", "a config.json of transformers, or its folder, that describes the model");
}

void PlanModel::read(Flags& flags) {
  if (load.empty()) return;
  const std::string path = is_directory(load) ? load + "/config.json" : load;
  if (file_exists(path))
    loaded = read_hf_description(path).config;
  else
    flags.notice(cat("--load ", load, " is set aside, because it has no config.json that describes the model"));
}

GptConfig PlanModel::check(Flags& flags, const TrainOptions& run) const {
  const std::optional<std::int64_t>& tokens = run.tokenizer.vocab_size;
  if (!tokens && !loaded)
    flags.problem("--vocab-size", "is required, because the size of the vocabulary is part of the model");
  return resolve_config(run, loaded, tokens.value_or(1), std::bind_front(&Flags::problem, &flags));
}

}  // namespace mtl
