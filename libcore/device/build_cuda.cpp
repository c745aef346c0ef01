// Of a program with kernels.
#include <cuda_runtime_api.h>

#include "base/str.h"
#include "device/cuda_device.h"

namespace mtl {

CudaBuild cuda_build() { return {MTL_CUDA_ARCHS, cat(CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10)}; }

}  // namespace mtl
