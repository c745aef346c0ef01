// GPU memory through the CUDA runtime, which is linked statically and opens the driver when first called. We clear and
// copy memory on CUDA's default stream, which synchronizes with the process's other streams.
#include <cuda_runtime.h>

#include <cstring>

#include "base/error.h"
#include "base/str.h"
#include "device/check_cuda.h"
#include "device/cuda_device.h"
#include "device/cuda_memory.h"

namespace mtl::cuda {

std::byte* allocate(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // clear the error, so that it is not reported again
    std::size_t free = 0, total = 0;
    static_cast<void>(cudaMemGetInfo(&free, &total));
    fail(
        Exit::failure, "out of memory: cannot allocate ", human_bytes(static_cast<double>(bytes)),
        " on the GPU, which has ", human_bytes(static_cast<double>(free)), " of ",
        human_bytes(static_cast<double>(total)),
        " free; use a smaller micro-batch or model, recomputation (--recompute-granularity full), 16 bits (--bf16), or "
        "stop the other programs on this GPU");
  }
  if (status != cudaSuccess) {
    const std::string why_not = find_cuda_device().why_not;
    if (!why_not.empty()) fail(Exit::usage, "--device cuda: ", why_not, "; to compute without a GPU, use --device cpu");
  }
  check(status, "an allocation");
  check(cudaMemset(data, 0, bytes), "clearing memory");
  return static_cast<std::byte*>(data);
}

void release(std::byte* memory) noexcept { static_cast<void>(cudaFree(memory)); }

std::byte* allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMallocHost(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    fail(Exit::failure, "out of memory: cannot pin ", human_bytes(static_cast<double>(bytes)),
         " of host memory for copies to the GPU; raise the limit (ulimit -l, the job's memory), or use a smaller "
         "batch");
  }
  check(status, "pinning memory of the host");
  std::memset(data, 0, bytes);
  return static_cast<std::byte*>(data);
}

void release_pinned(std::byte* memory) noexcept { static_cast<void>(cudaFreeHost(memory)); }

void copy_from_host(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "a copy to the GPU");
}
void copy_to_host(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "a copy from the GPU");
}

}  // namespace mtl::cuda
