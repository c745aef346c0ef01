// A device's peak rates, from a data sheet or measured. Profiles compare operators with the roofline that these rates
// define.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/dtype.h"
#include "device/stream.h"

namespace mtl {

struct Hardware {
  std::string name;         // "H100"
  double dram_gbs = 0;      // GB/s of device memory
  double tflops_16 = 0;     // TFLOP/s for dense matmuls in bf16 and fp16
  double tflops_tf32 = 0;   // TFLOP/s for dense matmuls in fp32 with --tf32
  double tflops_f32 = 0;    // TFLOP/s in products of fp32
  std::string source = "";  // where these rates come from

  double tflops(DType dtype, bool tf32 = false) const {
    if (dtype == DType::bf16 || dtype == DType::f16) return tflops_16;
    return tf32 ? tflops_tf32 : tflops_f32;
  }
  /// Returns the roofline's lower bound for the time of `work`, in milliseconds: the time for its FLOPs or for its
  /// bytes, whichever is longer.
  double bound_ms(const Counters& work, DType dtype, bool tf32 = false) const;
  /// True if the FLOPs take longer than the bytes.
  bool is_compute_bound(const Counters& work, DType dtype, bool tf32 = false) const;
};

/// Returns the known GPUs. The rates are from data sheets, for dense matmuls at boost clock.
const std::vector<Hardware>& known_hardware();
/// Returns the known GPU with this name, or null if the name is unknown. The name can be as users write it ("H100") or
/// as CUDA reports it ("NVIDIA H100 80GB HBM3"). PCIe cards have separate entries.
const Hardware* find_hardware(std::string_view name);

}  // namespace mtl
