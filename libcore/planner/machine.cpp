#include "planner/machine.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

void Machine::use(std::shared_ptr<const OperatorTimes> times, DType compute, bool tf32) {
  measured = std::move(times);
  gemm = attention = measured->most_flops_per_ms() / (device.tflops(compute, tf32) * 1e9);
  memory = measured->most_bytes_per_ms() / (device.dram_gbs * 1e6);
}

double Machine::work_ms(const TraceEvent& event, bool tf32) const {
  if (measured != nullptr) return measured->ms(event.name, event.operands, event.work) + measured->between_ms();
  const double share = event.operator_class == OperatorClass::attention ? attention : gemm;
  const double compute = event.work.flops / (share * device.tflops(event.dtype, tf32) * 1e9);
  return std::max(compute, event.work.bytes / (memory * device.dram_gbs * 1e6)) + launch_us * 1e-3;
}

const std::vector<Machine>& known_machines() {
  // The shares are what the fastest published kernels reach on an H100: cuBLAS's bf16 products 795 of 989 TFLOP/s,
  // FlashAttention-3 420 forward and backward at 1k to 2k tokens, memory-bound kernels 3.0 of 3.35 TB/s.
  static const std::vector<Machine> known = [] {
    struct Row {
      const char* name;
      double inside_gbs, between_gbs, gb;
      const char* links;
    };
    std::vector<Machine> out;
    for (const Row& row : {Row{"A100", 300, 25, 80, "NVLink 3, 200 Gb/s of InfiniBand per GPU"},
                           Row{"A100-40GB", 300, 25, 40, "NVLink 3, 200 Gb/s of InfiniBand per GPU"},
                           Row{"A100-PCIe", 32, 25, 80, "PCIe 4, 200 Gb/s of InfiniBand per GPU"},
                           Row{"H100", 450, 50, 80, "NVLink 4, 400 Gb/s of InfiniBand per GPU"},
                           Row{"H100-PCIe", 64, 50, 80, "PCIe 5, 400 Gb/s of InfiniBand per GPU"},
                           Row{"H200", 450, 50, 141, "NVLink 4, 400 Gb/s of InfiniBand per GPU"},
                           Row{"B200", 900, 50, 180, "NVLink 5, 400 Gb/s of InfiniBand per GPU"}})
      out.push_back({.device = *find_hardware(row.name),
                     .gemm = 0.80,
                     .attention = 0.42,
                     .memory = 0.90,
                     .launch_us = 0,
                     .links = {.inside_gbs = row.inside_gbs,
                               .between_gbs = row.between_gbs,
                               .host_gbs = starts_with(row.name, "A100") ? 32.0 : 64.0},  // PCIe 4, PCIe 5
                     .device_gb = row.gb,
                     .sources = {std::string("links: ") + row.links,
                                 "shares of peak rates: products 0.80 (cuBLAS), attention 0.42 (FlashAttention-3), "
                                 "bytes 0.90, as published for an H100"}});
    return out;
  }();
  return known;
}

const Machine* find_machine(std::string_view name) {
  const Hardware* device = find_hardware(name);
  if (device == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(known_machines(), [&](const Machine& each) { return each.device.name == device->name; });
  return found == known_machines().end() ? nullptr : &*found;
}

}  // namespace mtl
