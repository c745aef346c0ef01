#include "planner/machine.h"

#include <algorithm>

#include "planner/hardware_file.h"

namespace mtl {

namespace {

struct HardwareText {
  const char* path;
  const char* json;
};

/// share/hardware/*.json, as of the build.
constexpr HardwareText kHardwareTexts[] = {
#include "planner/hardware_files.inc"
};

double share_of(const Efficiency& efficiency, OperatorClass operator_class) {
  if (operator_class == OperatorClass::attention_forward) return efficiency.attention_forward;
  if (operator_class == OperatorClass::attention_backward) return efficiency.attention_backward;
  return efficiency.gemm;
}

}  // namespace

double Machine::best_share() const {
  return std::max({efficiency.gemm, efficiency.attention_forward, efficiency.attention_backward});
}

void Machine::use(std::shared_ptr<const OperatorTimes> times, DType compute, bool tf32) {
  measured = std::move(times);
  const double flops = measured->most_flops_per_ms() / (device.tflops(compute, tf32) * 1e9);
  efficiency = {flops, flops, flops, measured->most_bytes_per_ms() / (device.dram_gbs * 1e6)};
  efficiency_of = "profile";
}

double Machine::work_ms(const TraceEvent& event, bool tf32) const {
  if (measured != nullptr) return measured->ms(event.name, event.operands, event.work) + measured->between_ms();
  const double compute =
      event.work.flops / (share_of(efficiency, event.operator_class) * device.tflops(event.dtype, tf32) * 1e9);
  return std::max(compute, event.work.bytes / bytes_per_ms()) + launch_us * 1e-3;
}

const std::vector<Machine>& known_machines() {
  static const std::vector<Machine> known = [] {
    std::vector<Machine> out;
    for (const HardwareText& each : kHardwareTexts) out.push_back(parse_hardware(each.json, each.path));
    std::ranges::sort(out, {}, [](const Machine& each) { return each.device.name; });
    return out;
  }();
  return known;
}

const Machine* find_machine(std::string_view name) {
  const auto named = [](std::string_view wanted) -> const Machine* {
    const auto found = std::ranges::find_if(
        known_machines(), [&](const Machine& each) { return lowered(each.device.name) == lowered(wanted); });
    return found == known_machines().end() ? nullptr : &*found;
  };
  if (const Machine* machine = named(name)) return machine;
  const Hardware* device = find_hardware(name);
  return device == nullptr ? nullptr : named(device->name);
}

}  // namespace mtl
