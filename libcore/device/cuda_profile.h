// Support for NVIDIA's profilers on the device cuda: NVTX ranges and the capture range for Nsight Systems, and kernel
// times from CUPTI. Implemented in profile_cuda.cpp. In a build without CUDA, no_cuda_profile.cpp does nothing.
#pragma once

#include <string>
#include <vector>

#include "device/profile.h"

namespace mtl::cuda {

/// Starts a range on the calling thread, which Nsight Systems shows. Kernels that are launched in the range belong to
/// the operator with index `op` in the profile. If `op` is -1, the range is not an operator.
void begin_range(const std::string& name, int op);
void end_range(bool is_op);

/// Starts the range that `nsys profile --capture-range=cudaProfilerApi` captures, and starts recording kernels with
/// CUPTI. Waits for the device. If CUPTI cannot record, returns the reason, otherwise "".
std::string start_kernel_records();
/// Waits for the device, then ends the capture range and the recording. Returns the kernels ordered by start time.
/// Times are in milliseconds since CUPTI started recording.
std::vector<ProfileKernel> stop_kernel_records();

}  // namespace mtl::cuda
