// Memory of a GPU through the CUDA runtime, which is linked statically and opens the driver at its first call.
// Everything goes to CUDA's default stream: a copy waits for the kernels before it.
#include <cuda_runtime.h>

#include "base/error.h"
#include "base/str.h"
#include "device/cuda_device.h"
#include "device/cuda_memory.h"

namespace mtl::cuda {

namespace {

/// Throws with CUDA's text. Kernels run after their launch has returned, so what failed may be one of them.
void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(Exit::failure, "GPU: ", what, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
       "); the fault may be that of a kernel that was started before");
}

}  // namespace

std::byte* allocate(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // which would be reported again
    std::size_t free = 0, total = 0;
    static_cast<void>(cudaMemGetInfo(&free, &total));
    fail(
        Exit::failure, "out of memory: cannot allocate ", human_bytes(static_cast<double>(bytes)),
        " on the GPU, which has ", human_bytes(static_cast<double>(free)), " of ",
        human_bytes(static_cast<double>(total)),
        " free; use a smaller micro-batch or model, recomputation (--recompute-granularity full), 16 bits (--bf16), or "
        "stop what else runs there");
  }
  if (status != cudaSuccess) {
    const std::string why_not = find_cuda_device().why_not;
    if (!why_not.empty()) fail(Exit::usage, "device cuda: ", why_not, "; choose the device cpu");
  }
  check(status, "an allocation");
  check(cudaMemset(data, 0, bytes), "clearing memory");
  return static_cast<std::byte*>(data);
}

void release(std::byte* memory) noexcept { static_cast<void>(cudaFree(memory)); }

void copy_from_host(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "a copy to the GPU");
}
void copy_to_host(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "a copy from the GPU");
}
void copy_within(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice), "a copy on the GPU");
}

}  // namespace mtl::cuda
