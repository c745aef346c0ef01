// Chooses the device on which a program computes.
#pragma once

#include <string>

#include "base/console.h"
#include "device/cuda_device.h"
#include "device/stream.h"

namespace mtl {

/// The device that --device NAME selects on this machine.
struct DeviceChoice {
  Device device = Device::cpu;
  std::string text;     // message to report; empty for cpu, and for auto without NVIDIA's driver
  std::string problem;  // why the device cannot be used; empty if it can
  std::string why_not;  // why auto chose no GPU even though the machine has NVIDIA's driver; otherwise empty
};

/// Chooses a device by `name`: auto, cpu or cuda. A `dry` run computes nothing, so cuda needs no GPU, only a program
/// built with CUDA kernels.
DeviceChoice choose_device(const std::string& name, bool dry = false);

/// Like choose_device(), for auto or cuda, given find_cuda_device()'s result.
DeviceChoice describe_choice(const std::string& name, const CudaDevice& found, bool dry = false);

/// For tools without ranks: calls choose_device() and reports the choice. Throws UsageError if the device cannot be
/// used.
Device device_to_use(const std::string& name, Console& console);

}  // namespace mtl
