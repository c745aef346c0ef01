// Supports NVIDIA's profilers on the cuda device: NVTX ranges and a capture range for Nsight Systems, and kernel times
// from CUPTI. In a build without CUDA, no_cuda_device.cpp does nothing.
#pragma once

#include <string>
#include <vector>

#include "device/profile.h"

namespace mtl::cuda {

/// Starts a range on the calling thread, for Nsight Systems to show. If `op` is not -1, kernels launched in the range
/// belong to the operator with index `op` in the profile.
void begin_range(const std::string& name, int op);
void end_range(bool is_op);

/// Starts the range that `nsys profile --capture-range=cudaProfilerApi` captures, and starts recording kernels with
/// CUPTI. Waits for the device. Returns the reason if CUPTI cannot record, otherwise "".
std::string start_kernel_records();
/// Waits for the device, then ends the capture range and the recording. Returns kernels sorted by start time. Times are
/// in milliseconds since CUPTI started recording.
std::vector<ProfileKernel> stop_kernel_records();

}  // namespace mtl::cuda
