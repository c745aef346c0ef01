// Runs a grid of CUDA threads on one CPU thread. Each CUDA thread is a fiber; blocks run one after another. Blocks,
// warps and lanes run in a random order that depends on a seed. If a kernel has a race or a missing barrier, its
// results vary with the seed. Shared memory is initially filled with NaN and ends at an inaccessible page. Device
// memory is accessible while a grid runs (tests/mirror/space.h).
//
// The environment variable MTL_EMULATION_SEED sets the seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>

#include "base/error.h"

namespace mtl::emulated {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  Dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1) : x(of_x), y(of_y), z(of_z) {}
};

/// The running thread's indices and the sizes of its block and grid, named as in CUDA.
extern Dim3 threadIdx, blockIdx, blockDim, gridDim;

/// Calls `thread` for each thread in each block. Rethrows a thread's exception. Throws Error if
/// - a GPU would reject the launch
/// - a thread waits forever
/// - lanes in a warp wait for different operations
/// - a thread writes just before shared memory
void run_grid(Dim3 blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread);

/// The most shared memory that a block may have: that of sm_90 until a test assigns less.
extern std::size_t most_shared_bytes;
/// The shared memory of the last grid's blocks.
extern std::size_t last_shared_bytes;

/// Returns the running block's shared memory.
void* shared_memory();

/// Waits until every thread in the block has called it or ended.
void wait_for_block();
/// Waits until all 32 lanes in the warp have called it. `lanes` must be the mask that selects all lanes. Throws if
/// lanes pass different `what`.
void wait_for_warp(const char* what, unsigned lanes);

/// Returns room for what the running warp's lanes exchange, kMostExchanged bytes that are a multiple of 16. Each lane
/// writes its part and calls end_exchange(), which waits for the others like wait_for_warp(). What the lanes wrote
/// stays until the running lane's next exchange. All lanes must make the same exchanges in the same order.
inline constexpr std::size_t kMostExchanged = 8192;
std::byte* begin_exchange();
void end_exchange(const char* what, unsigned lanes);

/// Returns the values passed by the 32 lanes, which stay until the running lane's next exchange.
template <class T>
const T* gather(const char* what, unsigned lanes, const T& value) {
  static_assert(32 * sizeof(T) <= kMostExchanged);
  auto* values = reinterpret_cast<T*>(begin_exchange());
  values[threadIdx.x % 32] = value;
  end_exchange(what, lanes);
  return values;
}

}  // namespace mtl::emulated
