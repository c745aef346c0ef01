#include "planner/plan_devices.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "planner/hardware_file.h"

namespace mtl {

namespace {

bool has_file(const PlanDevices& devices) { return devices.hardware && ends_with(*devices.hardware, ".json"); }

/// Returns the known GPUs' machine, or null if there is none.
const Machine* known_machine(const PlanDevices& devices) {
  return devices.hardware           ? find_machine(*devices.hardware)
         : devices.times != nullptr ? find_machine(devices.times->device().name)
                                    : nullptr;
}

/// Chooses the shares of peak rates, and keeps only their sources.
void choose_efficiency(Machine& machine, const std::optional<std::string>& given) {
  const bool is_mtl = given ? *given == "mtl" : machine.mtl_efficiency.has_value();
  if (is_mtl && !machine.mtl_efficiency)
    fail_at(Exit::usage, "--efficiency mtl", machine.origin,
            " does not have \"efficiency.mtl\", the shares that mtl's kernels reach; use --efficiency published");
  if (is_mtl) {
    machine.efficiency = *machine.mtl_efficiency;
    machine.efficiency_of = "mtl";
  }
  std::erase_if(machine.sources, [&](const std::string& source) {
    return starts_with(source, "efficiency.") && starts_with(source, "efficiency.mtl.") != is_mtl;
  });
}

Machine machine_of(const PlanDevices& devices, const TrainOptions& run) {
  Machine out = devices.is_on_cpu() ? Machine{.device = devices.times->device(),
                                              .devices_per_node = static_cast<int>(run.parallel.world),
                                              .sources = {"links: as given"}}
                : has_file(devices) ? read_hardware(*devices.hardware)
                                    : *known_machine(devices);
  if (devices.times == nullptr) {
    choose_efficiency(out, devices.efficiency);
    return out;
  }
  std::erase_if(out.sources, [](const std::string& source) {
    return starts_with(source, "efficiency.") || starts_with(source, "launch ");
  });
  out.sources.push_back("operators: " + *devices.profile);
  out.origin = *devices.profile;
  out.use(devices.times, precision_of(run.precision).compute, run.tf32);
  return out;
}

/// Returns the bytes of "80GB" or "80", or nothing if it is not a number in kRateBounds.
std::optional<double> parse_gigabytes(std::string_view text) {
  if (ends_with(text, "GB")) text.remove_suffix(2);
  const std::optional<double> number = parse_float(text);
  if (!number || !kRateBounds.objection(*number).empty()) return std::nullopt;
  return *number * 1e9;
}

}  // namespace

std::vector<std::string> machine_names() {
  return texts_of(known_machines(), [](const Machine& machine) { return machine.device.name; });
}

bool PlanDevices::is_on_cpu() const { return times != nullptr && starts_with(times->device().name, "CPU"); }

PlanRequest PlanDevices::request(const TrainOptions& run, const GptConfig& config) const {
  PlanRequest out{.run = run, .config = config, .machine = machine_of(*this, run)};
  out.node_size = static_cast<int>(run.parallel.gpus_per_node.value_or(out.machine.devices_per_node));
  if (host_memory && !is_on_cpu()) out.host_bytes = *parse_gigabytes(*host_memory);
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

void check_gigabytes(const std::string& flag, const std::optional<std::string>& size, const ReportProblem& report) {
  if (size && !parse_gigabytes(*size))
    report(cat(flag, " ", *size), "is not a number of GB from 1e-6 to 1e9, as in 80GB");
}

void check_devices(PlanDevices& devices, TrainOptions& run, const ReportProblem& report) {
  if (devices.profile) devices.times = std::make_shared<const OperatorTimes>(OperatorTimes::read(*devices.profile));
  run.device = devices.is_on_cpu() ? Device::cpu : Device::cuda;
  if (devices.is_on_cpu()) run.threads = devices.times->threads();
  check_gigabytes("--device-memory", devices.device_memory, report);
  const auto require_given = [&](bool is_given, const std::string& flag, const std::string& what) {
    if (!is_given) report(flag, "is required: " + what);
  };
  const DType compute = precision_of(run.precision).compute;
  if (devices.times != nullptr && !devices.times->has_products(compute))
    report("--profile " + *devices.profile,
           cat("has no matrix products in ", name_of(compute), "; profile a run of the precision to plan for"));
  if (devices.is_on_cpu()) {
    if (devices.hardware) report("--hardware " + *devices.hardware, "contradicts --profile, which is of a CPU");
    require_given(devices.inside_gbs && devices.inside_us, "--inside-gbs and --inside-us",
                  "a profile of a CPU has no links");
    const std::int64_t world = run.parallel.world;
    if (run.parallel.gpus_per_node.value_or(world) < world)
      require_given(devices.between_gbs && devices.between_us, "--between-gbs and --between-us",
                    "a profile of a CPU has no links");
  } else if (has_file(devices)) {
    return;
  } else if (devices.hardware && known_machine(devices) == nullptr) {
    report("--hardware " + *devices.hardware,
           "is not known; use one of " + join(machine_names(), ", ") + ", or describe it in a file NAME.json");
  } else {
    require_given(known_machine(devices) != nullptr, "--hardware",
                  "the GPUs' model, one of " + join(machine_names(), ", "));
  }
}

}  // namespace mtl
