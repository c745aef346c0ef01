// The GPU that a process computes on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mtl {

struct CudaDevice {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;  // compute capability
  std::size_t memory = 0;    // bytes
  int driver = 0;            // the version of CUDA that the driver supports, such as 13000; 0 without a driver
  std::string bus;           // "0000:1b:00.0": the same for all processes of a host
  int count = 0;             // GPUs that CUDA shows to this process; 0 if this one cannot be queried
  bool compiled = true;      // whether this program has kernels for any GPU
  bool has_driver = false;   // whether the machine has NVIDIA's driver; false in a program without kernels
  std::string why_not;       // why this process cannot compute on a GPU; empty if it can

  bool usable() const { return why_not.empty(); }
  std::string text() const;  // "NVIDIA H100 80GB HBM3 (sm_90, 79.1 GiB)"
};

/// Returns GPU number `ordinal` of those that CUDA shows to this process (CUDA_VISIBLE_DEVICES); by default the one
/// that use_cuda_device() chose. Does not throw: `why_not` is set if the GPU cannot be used.
CudaDevice find_cuda_device(std::optional<int> ordinal = {});
/// Makes the calling thread use this GPU instead of the first. Afterwards only this thread may allocate, create streams
/// and launch. Call before any other use of the device.
void use_cuda_device(int ordinal);

/// Memory of a GPU, in bytes.
struct CudaMemory {
  std::size_t free = 0, total = 0;
};
/// Returns the memory of the GPU that this process uses. Creates CUDA's context, whose memory is not part of `free`.
/// Throws Error if no GPU can be used.
CudaMemory cuda_memory();

/// Estimates of the GPU memory that a process takes in addition to its buffers; tests/gpu compares them with what a
/// device reports. The context exists before anything is allocated; kernels and cuBLASLt are loaded at their first use.
inline constexpr std::size_t kCudaContextBytes = std::size_t{512} << 20, kCudaLibraryBytes = std::size_t{256} << 20;

/// True if kernels compiled for `architectures` ("80,90a") run on a GPU: those of sm_80 on 8.0 and later 8.x, those of
/// sm_90a only on 9.0.
bool runs_on(std::string_view architectures, int major, int minor);

}  // namespace mtl
