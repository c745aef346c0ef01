#include "base/error.h"
#include "device/cuda_device.h"

namespace mtl {

CudaDevice find_cuda_device(std::optional<int>) {
  CudaDevice out;
  out.compiled = false;
  out.why_not = "this program was built without CUDA";
  return out;
}

CudaMemory cuda_memory() { fail(Exit::usage, "--device cuda: ", find_cuda_device().why_not, "; use --device cpu"); }

}  // namespace mtl
