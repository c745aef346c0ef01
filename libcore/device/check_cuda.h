// Faults of CUDA's runtime as errors; only for files that include CUDA's headers.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace mtl::cuda {

/// Throws Error with CUDA's text. Kernels run after their launch has returned, so what failed may be one of them.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(Exit::failure, "GPU: ", what, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
       "); the fault may be that of a kernel that was started before");
}

}  // namespace mtl::cuda
