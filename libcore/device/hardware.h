// A device's peak rates, from a data sheet or measured. They define the roofline that profiles compare operators with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/dtype.h"
#include "device/stream.h"

namespace mtl {

struct Hardware {
  std::string name;         // "H100"
  double dram_gbs = 0;      // device memory bandwidth, GB/s
  double tflops_16 = 0;     // TFLOP/s in dense bf16 and fp16 matmuls
  double tflops_tf32 = 0;   // TFLOP/s in dense fp32 matmuls with --tf32
  double tflops_f32 = 0;    // TFLOP/s in fp32 matmuls without --tf32
  std::string source = "";  // where these rates come from

  double tflops(DType dtype, bool tf32 = false) const {
    if (dtype == DType::bf16 || dtype == DType::f16) return tflops_16;
    return tf32 ? tflops_tf32 : tflops_f32;
  }
  /// Returns the roofline's lower bound on the time for `work`, in milliseconds. This is the time needed for the FLOPs
  /// or for the bytes, whichever is longer.
  double bound_ms(const Counters& work, DType dtype, bool tf32 = false) const;
  /// Returns true if the FLOPs take longer than the bytes.
  bool is_compute_bound(const Counters& work, DType dtype, bool tf32 = false) const;
};

/// Returns the known GPUs. Rates are from data sheets, for dense matmuls at boost clock.
const std::vector<Hardware>& known_hardware();
/// Returns the known GPU with this name, or null if we do not know it. Accepts short names ("H100") and CUDA's names
/// ("NVIDIA H100 80GB HBM3"). PCIe cards have separate entries.
const Hardware* find_hardware(std::string_view name);

}  // namespace mtl
