// The peak rates of a device, from its data sheet or measured: the roofline that operators are compared with.
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
  double tflops_16 = 0;     // TFLOP/s in dense products of bf16 and fp16
  double tflops_tf32 = 0;   // TFLOP/s in dense products of fp32 with --tf32
  double tflops_f32 = 0;    // TFLOP/s in products of fp32
  std::string source = "";  // of these figures

  double tflops(DType dtype, bool tf32 = false) const {
    if (dtype == DType::bf16 || dtype == DType::f16) return tflops_16;
    return tf32 ? tflops_tf32 : tflops_f32;
  }
  /// Returns the roofline's lower bound on the time of this work, in milliseconds: that of its FLOPs or of its bytes,
  /// whichever is longer.
  double bound_ms(const Counters& work, DType dtype, bool tf32 = false) const;
  /// True if the FLOPs take longer than the bytes.
  bool is_compute_bound(const Counters& work, DType dtype, bool tf32 = false) const;
};

/// Returns GPUs with the rates of their data sheets: dense, at boost clock.
const std::vector<Hardware>& known_hardware();
/// Returns the known GPU with this name, as users write it ("H100") or as CUDA reports it ("NVIDIA H100 80GB HBM3");
/// null if it is not known. PCIe cards have entries of their own.
const Hardware* find_hardware(std::string_view name);

}  // namespace mtl
