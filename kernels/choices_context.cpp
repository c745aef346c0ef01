#include "kernels/choices_context.h"

#include "base/str.h"
#include "device/cuda_device.h"
#include "kernels/attention_cuda.h"
#include "kernels/gemm_cuda.h"

namespace mtl {

std::string choices_context(Device device) {
  if (device != Device::cuda) return "";
  const CudaDevice gpu = find_cuda_device();
  return cat(gpu.name, ", sm_", gpu.major, gpu.minor, ", driver ", gpu.driver, ", ", cuda::product_library(), ", ",
             cuda::attention_library());
}

}  // namespace mtl
