// NVIDIA's own profilers, for a profiled run on the device cuda: ranges for Nsight Systems (NVTX), its capture range,
// and the times of kernels (CUPTI). profile_cuda.cpp calls them, no_cuda_profile.cpp does nothing.
#pragma once

#include <string>
#include <vector>

#include "device/profile.h"

namespace mtl::cuda {

/// A range of the calling thread that nsys shows. Kernels launched in it belong to the operator `op`, an index
/// in the profile; -1: the range is not an operator.
void begin_range(const std::string& name, int op);
void end_range(bool is_op);

/// Starts what `nsys profile --capture-range=cudaProfilerApi` records, and CUPTI's records of kernels. Returns why
/// CUPTI cannot record, or "".
std::string start_kernel_records();
/// Ends both. Returns kernels in the order of their begins, in milliseconds since `start_kernel_records` returned; the
/// device must be idle.
std::vector<ProfileKernel> stop_kernel_records();

}  // namespace mtl::cuda
