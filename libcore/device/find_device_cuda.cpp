// Finds a GPU through the CUDA runtime.
#include <cuda_runtime.h>

#include <cstdlib>

#include "base/error.h"
#include "device/check_cuda.h"
#include "device/cuda_device.h"

namespace mtl {

namespace {

/// Returns "13.0" for 13000.
std::string version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

/// Explains why CUDA shows no GPU.
std::string reason_of(cudaError_t status, int driver) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  int runtime = 0;
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) return "no NVIDIA driver is installed on this machine";
  if (status == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000)
    return cat("the NVIDIA driver supports CUDA ", version_text(driver), ", and this program needs CUDA ",
               version_text(runtime), "; update the driver or, on a data-center GPU, install cuda-compat-",
               runtime / 1000, "-", runtime % 1000 / 10, " and put its folder first in LD_LIBRARY_PATH");
  if (visible != nullptr && status == cudaErrorNoDevice)
    return cat("CUDA_VISIBLE_DEVICES is \"", visible, "\", which shows no GPU to this process");
  return cudaGetErrorString(status);
}

}  // namespace

CudaBuild cuda_build() { return {MTL_CUDA_ARCHS, version_text(CUDART_VERSION)}; }

CudaDevice find_cuda_device(std::optional<int> ordinal) {
  CudaDevice out;
  int driver = 0, count = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  out.driver = driver;
  out.has_driver = driver != 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count == 0) status = cudaErrorNoDevice;
  int number = ordinal.value_or(0);
  if (status == cudaSuccess && !ordinal) status = cudaGetDevice(&number);
  cudaDeviceProp properties{};
  if (status == cudaSuccess) status = cudaGetDeviceProperties(&properties, number);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    out.why_not = reason_of(status, driver);
    return out;
  }
  char bus[32] = "";
  static_cast<void>(cudaDeviceGetPCIBusId(bus, sizeof bus, number));
  out.name = properties.name;
  out.bus = bus;
  out.count = count;
  out.major = properties.major;
  out.minor = properties.minor;
  out.memory = properties.totalGlobalMem;
  out.why_not = missing_kernels_text(out.text(), cuda_build().architectures, out.major, out.minor);
  return out;
}

CudaMemory cuda_memory() {
  CudaMemory out;
  cuda::check(cudaMemGetInfo(&out.free, &out.total), "querying the GPU's memory");
  return out;
}

}  // namespace mtl
