// Replaces kernels/cuda/platform.h in tests: the same functions, emulated by fibers on one CPU thread
// (tests/cuda_on_cpu/grid.h). Kernels compile as plain C++.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "base/error.h"
#include "device/dtype.h"
#include "device/stream.h"
#include "tests/cuda_on_cpu/grid.h"
#include "tests/mirror/queue.h"

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)

using dim3 = mtl::emulated::Dim3;
using mtl::emulated::blockDim;
using mtl::emulated::blockIdx;
using mtl::emulated::gridDim;
using mtl::emulated::threadIdx;

inline void __syncthreads() { mtl::emulated::wait_for_block(); }
inline void __syncwarp(unsigned lanes = ~0u) { mtl::emulated::wait_for_warp("__syncwarp", lanes); }

template <class T>
T __shfl_sync(unsigned lanes, T value, int from) {
  return mtl::emulated::gather("__shfl_sync", lanes, value)[static_cast<unsigned>(from) % 32];
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int distance) {
  const T* values = mtl::emulated::gather("__shfl_xor_sync", lanes, value);
  return values[(threadIdx.x ^ static_cast<unsigned>(distance)) % 32];
}
inline int __any_sync(unsigned lanes, int is) {
  const int* values = mtl::emulated::gather("__any_sync", lanes, is);
  return std::any_of(values, values + 32, [](int other) { return other != 0; });
}

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

namespace mtl::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffff;
inline constexpr float kLog2E = 1.4426950408889634f;

template <class T>
T* shared_memory() {
  return static_cast<T*>(emulated::shared_memory());
}

inline void expect_aligned(const void* at, unsigned bytes) {
  require(reinterpret_cast<std::uintptr_t>(at) % bytes == 0, "a kernel accesses ", bytes,
          " bytes that are not aligned");
}

inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t to_bits(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float to_float(float value) { return value; }
inline float to_float(Bf16 value) { return widen(value); }
inline float to_float(Half value) { return widen(value); }
template <class T>
T from_float(float value) {
  return narrow<T>(value);
}

template <class T>
std::uint32_t pack_pair(float low, float high) {
  return std::uint32_t{narrow<T>(high).bits} << 16 | narrow<T>(low).bits;
}
template <class T>
float low_of(std::uint32_t pair) {
  return widen(T{static_cast<std::uint16_t>(pair & 0xffff)});
}
template <class T>
float high_of(std::uint32_t pair) {
  return widen(T{static_cast<std::uint16_t>(pair >> 16)});
}
inline float exp2_approx(float x) { return std::exp2(x); }

inline void add_count(std::int64_t* total, std::int64_t count) { *total += count; }

using Wide [[gnu::may_alias]] = unsigned __int128;
inline void store_streaming(Wide* to, Wide bits) { *to = bits; }

inline std::size_t most_shared_bytes() { return emulated::most_shared_bytes; }

struct LaunchShape {
  dim3 blocks;
  unsigned threads;
  std::size_t shared_bytes = 0;
};

/// Few, so that blocks process multiple rows.
template <class... Parameters>
int resident_blocks(void (*)(Parameters...), unsigned, std::size_t) {
  return 3;
}

template <class... Parameters, class... Args>
void launch(Stream& stream, void (*kernel)(Parameters...), const LaunchShape& shape, Args&&... args) {
  if (shape.blocks.x == 0 || shape.blocks.y == 0 || shape.blocks.z == 0) return;
  mirror::enqueue(stream.handle(), [=, values = std::tuple<Parameters...>(static_cast<Args&&>(args)...)] {
    emulated::run_grid(shape.blocks, shape.threads, shape.shared_bytes, [&] { std::apply(kernel, values); });
  });
}

}  // namespace mtl::cuda
