// --device: the device that a program computes on.
#pragma once

#include "base/console.h"
#include "cli/flags.h"
#include "device/cuda_device.h"
#include "device/stream.h"

namespace mtl {

/// Adds --device, whose default is the value of `name`.
void add_device_flag(Flags& flags, std::string& name);

/// The device that --device NAME means on this machine.
struct DeviceChoice {
  Device device = Device::cpu;
  std::string text;     // what to report; empty for cpu, and for auto without NVIDIA's driver
  std::string problem;  // why that device cannot be used; else empty
  std::string why_not;  // why auto did not choose a GPU, on a machine that has NVIDIA's driver; else empty
};

/// Chooses the device for `name`: auto, cpu or cuda. With `dry` nothing is computed: cuda needs no GPU, only a program
/// that has kernels for one.
DeviceChoice choose_device(const std::string& name, bool dry = false);

/// The same for auto or cuda, from the result of find_cuda_device().
DeviceChoice describe_choice(const std::string& name, const CudaDevice& found, bool dry = false);

/// choose_device() for tools without ranks: reports the choice. Throws UsageError if the device cannot be used.
Device device_to_use(const std::string& name, Console& console);

}  // namespace mtl
