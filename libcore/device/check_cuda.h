// Turns CUDA runtime errors into exceptions. Include this only in files that include the CUDA headers.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace mtl::cuda {

/// Throws Error with the CUDA runtime's message. An earlier kernel may have caused the error, because kernels run
/// asynchronously.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(Exit::failure, "GPU: ", what, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
       "); an earlier kernel may be the cause");
}

}  // namespace mtl::cuda
