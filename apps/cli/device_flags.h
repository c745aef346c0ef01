// --device: where a program computes.
#pragma once

#include "base/console.h"
#include "cli/flags.h"
#include "device/cuda_device.h"
#include "device/stream.h"

namespace mtl {

/// `name` is auto until a user chooses.
void add_device_flag(Flags& flags, std::string& name);

/// The meaning of a name of --device on this machine.
struct DeviceChoice {
  Device device = Device::cpu;
  std::string text;     // what to report; empty where the machine has no GPU
  std::string problem;  // why that device cannot be used; else empty
  std::string why_not;  // why auto did not choose a GPU, on a machine that has NVIDIA's driver; else empty
};

/// `dry`: nothing is computed, so that cuda needs no GPU, only a program that has its kernels.
DeviceChoice choose_device(const std::string& name, bool dry = false);

/// The same, for a GPU that was looked for.
DeviceChoice describe_choice(const std::string& name, const CudaDevice& found, bool dry = false);

/// The same for programs that compute alone: reports the choice. Throws UsageError where the device cannot be used.
Device device_to_use(const std::string& name, Console& console);

}  // namespace mtl
