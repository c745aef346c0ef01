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
  std::string text;     // what to report; empty if nothing, such as for cpu, and for auto without NVIDIA's driver
  std::string problem;  // why the device cannot be used; empty if it can
  std::string why_not;  // why auto did not choose a GPU on a machine that has NVIDIA's driver; else empty
};

/// Chooses the device for `name`: auto, cpu or cuda. `dry`: the run computes nothing, so that cuda needs no GPU, only a
/// program built with CUDA kernels.
DeviceChoice choose_device(const std::string& name, bool dry = false);

/// Does the same for auto or cuda, given the result of find_cuda_device().
DeviceChoice describe_choice(const std::string& name, const CudaDevice& found, bool dry = false);

/// Calls choose_device(), for tools without ranks, and reports the choice. Throws UsageError if the device cannot be
/// used.
Device device_to_use(const std::string& name, Console& console);

}  // namespace mtl
