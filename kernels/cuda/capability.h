// Queries the GPU's compute capability. tests/cuda_on_cpu has a header with the same name that emulates a GPU.
#pragma once

#include "kernels/cuda/platform.h"

namespace mtl::cuda {

/// Returns 80 for compute capability 8.0, 90 for 9.0.
inline int compute_capability() {
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "querying the current GPU");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "querying its capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "querying its capability");
  return 10 * major + minor;
}

}  // namespace mtl::cuda
