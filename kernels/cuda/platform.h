// The device as kernels see it: CUDA's threads, barriers and shuffles (cuda_runtime.h), and the functions below.
// tests/cuda_on_cpu has a header with the same name that emulates the device on the cpu, with one fiber per thread. The
// same kernels can thus run on a machine without a GPU.
//
// Kernels must not use features that the emulation lacks:
// - static shared memory and __constant__
// - barriers for part of a warp or block
// - synchronization between blocks
// - PTX outside this folder
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "base/error.h"
#include "device/check_cuda.h"
#include "device/dtype.h"
#include "device/stream.h"

namespace mtl::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffff;
inline constexpr float kLog2E = 1.4426950408889634f;

/// Returns the block's shared memory: LaunchShape::shared_bytes bytes, 16-byte aligned.
template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char mtl_shared[];
  return reinterpret_cast<T*>(mtl_shared);
}

/// On the cpu, makes tests fail if a wide access is misaligned. On a GPU, such an access faults anyway.
__device__ inline void expect_aligned(const void*, unsigned) {}

__device__ inline float from_bits(std::uint32_t bits) {
  float out;
  asm("mov.b32 %0, %1;" : "=f"(out) : "r"(bits));
  return out;
}
__device__ inline std::uint32_t to_bits(float value) {
  std::uint32_t out;
  asm("mov.b32 %0, %1;" : "=r"(out) : "f"(value));
  return out;
}
__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(Bf16 value) { return from_bits(std::uint32_t{value.bits} << 16); }
__device__ inline float to_float(Half value) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
  return out;
}
/// Rounds to nearest even.
template <class T>
__device__ T from_float(float value) {
  if constexpr (dtype_of<T>() == DType::f32) {
    return value;
  } else {
    T out;
    if constexpr (dtype_of<T>() == DType::bf16)
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
    else
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
    return out;
  }
}

/// Rounds two values to T, to nearest even, and packs them with `low` in the low half.
template <class T>
__device__ std::uint32_t pack_pair(float low, float high) {
  std::uint32_t out;
  if constexpr (dtype_of<T>() == DType::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
/// Return what pack_pair() packed.
template <class T>
__device__ float low_of(std::uint32_t pair) {
  if constexpr (dtype_of<T>() == DType::bf16) return from_bits(pair << 16);
  return to_float(T{static_cast<std::uint16_t>(pair & 0xffff)});
}
template <class T>
__device__ float high_of(std::uint32_t pair) {
  if constexpr (dtype_of<T>() == DType::bf16) return from_bits(pair & 0xffff0000);
  return to_float(T{static_cast<std::uint16_t>(pair >> 16)});
}
/// Returns 2^x. Results below the smallest normal number become 0.
__device__ inline float exp2_approx(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

/// Atomically adds `count` to *total.
__device__ inline void add_count(std::int64_t* total, std::int64_t count) {
  atomicAdd(reinterpret_cast<unsigned long long*>(total), static_cast<unsigned long long>(count));
}

/// 16 bytes as one number.
using Wide [[gnu::may_alias]] = unsigned __int128;
/// Stores 16 bytes that L2 evicts first.
__device__ inline void store_streaming(Wide* to, Wide bits) {
  __stcs(reinterpret_cast<ulonglong2*>(to), make_ulonglong2(static_cast<unsigned long long>(bits), bits >> 64));
}

/// Returns the most shared memory that a block may have on the current GPU, in bytes.
inline std::size_t most_shared_bytes() {
  int device = 0, bytes = 0;
  check(cudaGetDevice(&device), "querying the current GPU");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "querying its shared memory");
  return static_cast<std::size_t>(bytes);
}

struct LaunchShape {
  dim3 blocks;
  unsigned threads;  // per block, a multiple of kWarp
  std::size_t shared_bytes = 0;
};

/// Allows a kernel's blocks to have this much shared memory. The limit is the kernel's, also in graphs: a later launch
/// that needs less must not lower it.
template <class... Parameters>
void reserve_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  constexpr std::size_t kDefaultLimit = 48 << 10;
  if (bytes > kDefaultLimit)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(std::max(bytes, most_shared_bytes()))),
          "reserving a kernel's shared memory");
}

/// Returns how many blocks of a kernel the current GPU runs at a time, at least 1.
template <class... Parameters>
int resident_blocks(void (*kernel)(Parameters...), unsigned threads, std::size_t shared_bytes) {
  reserve_shared(kernel, shared_bytes);
  int gpu = 0, multiprocessors = 0, blocks = 0;
  check(cudaGetDevice(&gpu), "finding the GPU");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu), "reading a GPU's size");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads), shared_bytes),
        "counting a kernel's resident blocks");
  return std::max(1, blocks * multiprocessors);
}

/// Launches a kernel on the stream. Does nothing if the grid is empty.
template <class... Parameters, class... Args>
void launch(Stream& stream, void (*kernel)(Parameters...), const LaunchShape& shape, Args&&... args) {
  if (shape.blocks.x == 0 || shape.blocks.y == 0 || shape.blocks.z == 0) return;
  reserve_shared(kernel, shape.shared_bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.handle();
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Args&&>(args)...), "launching a kernel");
}

}  // namespace mtl::cuda
