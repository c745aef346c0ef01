// Describes the GPU on which a process computes.
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
  int driver = 0;            // CUDA version the driver supports, such as 13000; 0 without a driver
  std::string bus;           // "0000:1b:00.0"; the same in all processes on a host
  int count = 0;             // GPUs visible to this process; 0 if we cannot query this GPU
  bool compiled = true;      // whether this program has kernels for any GPU
  bool has_driver = false;   // whether an NVIDIA driver is installed; false in a program without kernels
  std::string why_not;       // why this process cannot compute on a GPU; empty if it can

  bool usable() const { return why_not.empty(); }
  std::string text() const;  // "NVIDIA H100 80GB HBM3 (sm_90, 79.1 GiB)"
};

/// Finds the GPU with index `ordinal` among those visible to this process (CUDA_VISIBLE_DEVICES). By default, returns
/// the GPU that the calling thread uses. Does not throw. If the GPU cannot be used, sets `why_not`.
CudaDevice find_cuda_device(std::optional<int> ordinal = {});

/// What this program's kernels were compiled for and with; empty in a program without kernels.
struct CudaBuild {
  std::string architectures;  // "80,90a"
  std::string version;        // of CUDA: "13.0"
};
CudaBuild cuda_build();

/// In bytes.
struct CudaMemory {
  std::size_t free = 0, total = 0;
};
/// Returns how much memory the process's GPU has. Creates the CUDA context, so `free` already excludes the context's
/// own memory. Throws Error if no GPU can be used.
CudaMemory cuda_memory();

/// Estimated GPU memory that a process uses in addition to its buffers. tests/gpu compares the estimates with what a
/// device reports. The context exists before the first allocation. Kernels and cuBLASLt are loaded at first use.
inline constexpr std::size_t kCudaContextBytes = std::size_t{512} << 20, kCudaLibraryBytes = std::size_t{256} << 20;

/// Returns the architecture to compile kernels for, so that all of mtl's run on this GPU: "80", or "90a", whose wgmma
/// kernels a build for plain 90 would lack.
std::string architecture_for(int major, int minor);

/// Returns why a GPU with compute capability major.minor cannot run kernels compiled for `architectures`, and the
/// remedy: another build, or another GPU if it is older than the kernels' instructions (8.0). Empty if it can. `gpu`
/// names it.
std::string missing_kernels_text(const std::string& gpu, const std::string& architectures, int major, int minor);

/// Returns true if kernels compiled for `architectures` ("80,90a") run on a GPU with compute capability major.minor.
/// sm_80 kernels run on 8.0 and later 8.x. sm_90a kernels run only on 9.0.
bool runs_on(std::string_view architectures, int major, int minor);

}  // namespace mtl
