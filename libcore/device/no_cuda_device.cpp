// For programs without kernels: there is no GPU, and nothing for NVIDIA's profilers to record.
#include "base/error.h"
#include "device/cuda_device.h"
#include "device/cuda_profile.h"

namespace mtl {

CudaDevice find_cuda_device(std::optional<int>) {
  CudaDevice out;
  out.compiled = false;
  out.why_not = "this program was built without CUDA";
  return out;
}

CudaBuild cuda_build() { return {}; }

CudaMemory cuda_memory() { fail(Exit::usage, "--device cuda: ", find_cuda_device().why_not, "; use --device cpu"); }

namespace cuda {

void begin_range(const std::string&, int) {}
void end_range(bool) {}
std::string start_kernel_records() { return find_cuda_device().why_not; }
std::vector<ProfileKernel> stop_kernel_records() { return {}; }

}  // namespace cuda

}  // namespace mtl
