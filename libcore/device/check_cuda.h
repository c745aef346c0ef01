// Turns CUDA runtime errors into exceptions. Only for files that include the CUDA headers.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace mtl::cuda {

/// Throws Error with the CUDA runtime's message. Kernels run asynchronously, so an earlier kernel may be at fault.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(Exit::failure, "GPU: ", what, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
       "); an earlier kernel may be at fault");
}

}  // namespace mtl::cuda
