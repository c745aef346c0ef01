// The flag --device: the device on which a program computes.
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
  std::string text;     // message to report; empty for cpu, and for auto without NVIDIA's driver
  std::string problem;  // why the device cannot be used; empty if it can
  std::string why_not;  // why auto did not choose a GPU although the machine has NVIDIA's driver; otherwise empty
};

/// Chooses the device for `name`: auto, cpu or cuda. With `dry`, the run computes nothing, so that cuda requires only a
/// program built with CUDA kernels, not a GPU.
DeviceChoice choose_device(const std::string& name, bool dry = false);

/// Like choose_device() above, for auto or cuda, given the result of find_cuda_device().
DeviceChoice describe_choice(const std::string& name, const CudaDevice& found, bool dry = false);

/// For tools without ranks: calls choose_device() and reports the choice. Throws UsageError if the device cannot be
/// used.
Device device_to_use(const std::string& name, Console& console);

}  // namespace mtl
