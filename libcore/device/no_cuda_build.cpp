// Of a program without kernels.
#include "device/cuda_device.h"

namespace mtl {

CudaBuild cuda_build() { return {}; }

}  // namespace mtl
