// NVIDIA's own profilers, for a profiled run on the device cuda: ranges for Nsight Systems (NVTX), its capture range,
// and the times of kernels (CUPTI). Implemented by profile_cuda.cpp; in a build without CUDA, no_cuda_profile.cpp does
// nothing.
#pragma once

#include <string>
#include <vector>

#include "device/profile.h"

namespace mtl::cuda {

/// Begins a range of the calling thread, which nsys shows. Kernels launched in the range belong to the operator `op`,
/// an index in the profile; -1: the range is not an operator.
void begin_range(const std::string& name, int op);
void end_range(bool is_op);

/// Starts the range that `nsys profile --capture-range=cudaProfilerApi` captures, and CUPTI's records of kernels. Waits
/// for the device. Returns why CUPTI cannot record, or "".
std::string start_kernel_records();
/// Ends both, after waiting for the device. Returns the kernels ordered by their begins, which are in milliseconds
/// since CUPTI started recording.
std::vector<ProfileKernel> stop_kernel_records();

}  // namespace mtl::cuda
