// The devices and links that a plan is for: peak rates, the share of them that operators reach, and memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/hardware.h"
#include "planner/links.h"
#include "planner/operator_times.h"
#include "planner/step_trace.h"

namespace mtl {

/// The share of the peak rates that kernels of a class reach: of FLOP/s for gemm and attention, of device memory's
/// bandwidth (`memory`) for all classes.
struct Efficiency {
  double gemm = 1, attention_forward = 1, attention_backward = 1, memory = 1;
};

struct Machine {
  Hardware device;
  Efficiency efficiency = {};
  std::optional<Efficiency> mtl_efficiency = {};  // of mtl's own kernels, where they were measured
  std::string efficiency_of = "published";        // whose kernels reach `efficiency`: published, mtl or profile
  double launch_us = 0;                           // of every operator
  Links links = {};
  double device_gb = 0;  // 10^9 bytes of device memory
  int devices_per_node = 8;
  std::vector<std::string> sources = {};  // "QUANTITY VALUE: SOURCE", of every quantity
  std::string origin = "";                // the file that states the rates of operators
  /// Replace `efficiency` and launch_us, and add what a step does outside of operators.
  std::shared_ptr<const OperatorTimes> measured = nullptr;

  /// Takes the operators' times from a profile. The shares of peak rates become those of its fastest operators, of the
  /// rate of products of this type.
  void use(std::shared_ptr<const OperatorTimes> times, DType compute, bool tf32);
  /// Milliseconds of a step outside of operators and of operations between ranks.
  double outside_ms() const { return measured == nullptr ? 0 : measured->outside_ms(); }
  /// Returns the largest share of the peak FLOP/s that a class reaches.
  double best_share() const;

  /// The bytes of device memory that operators read and write.
  double bytes_per_ms() const { return efficiency.memory * device.dram_gbs * 1e6; }
  /// Returns the time of an operator, and of what the host does between it and the next.
  double work_ms(const TraceEvent& event, bool tf32) const;
};

/// Returns the machines of share/hardware, which is part of the program, by name.
const std::vector<Machine>& known_machines();
/// Returns the machine of this name, in any case, or of a GPU's name (find_hardware()); null if there is none.
const Machine* find_machine(std::string_view name);

}  // namespace mtl
