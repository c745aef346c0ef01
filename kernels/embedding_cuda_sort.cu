// A stable radix sort without atomics. Each pass sorts by 6 bits of the row and launches three kernels:
// 1. Each block counts the digits in a tile of keys.
// 2. One block turns the counts into offsets, by digit, then by tile.
// 3. Each block moves the keys in its tile.
// A thread has consecutive keys and its own counters, so keys with equal digits keep their order.
//
// A pass reads the N 8-byte keys twice and writes them once. Predicted to be bound by the launches, about 10 us per
// pass. Vocabulary rows need 3 passes, positions 2.
#include <algorithm>
#include <bit>

#include "kernels/cuda/flat.h"
#include "kernels/cuda/warp.h"
#include "kernels/embedding_cuda.h"

namespace mtl::cuda {

namespace {

constexpr int kDigitBits = 6, kDigits = 1 << kDigitBits;
constexpr int kThreads = 128, kKeysOfThread = 8, kTile = kThreads * kKeysOfThread;
constexpr int kPitch = kThreads + 1;  // counters (digit, thread): no bank conflicts along either axis
constexpr std::size_t kShared = kDigits * kPitch * sizeof(std::uint32_t);

std::int64_t tiles_of(std::int64_t count) { return (count + kTile - 1) / kTile; }

/// A pass's operands. The second kernel turns `counts` (kDigits, tiles) into offsets into `sorted`.
struct Pass {
  std::uint64_t* sorted;
  std::uint32_t* counts;
  const std::uint64_t* keys;
  std::int64_t count;
  int shift;
};

__global__ void make_keys(std::uint64_t* keys, const std::int32_t* rows, std::int64_t first, std::int64_t table_rows,
                          std::int64_t count) {
  for (std::int64_t place = first_element(); place < count; place += all_threads()) {
    const std::int64_t row = rows[place] - first;
    const auto kept = static_cast<std::uint64_t>(row >= 0 && row < table_rows ? row : table_rows);
    keys[place] = kept << 32 | static_cast<std::uint64_t>(place);
  }
}

/// Calls body(key, counter) for this thread's keys in order. `counter` is the thread's counter for the key's digit.
template <class Body>
__device__ void over_keys(const Pass& pass, std::uint32_t* counters, const Body& body) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kTile + threadIdx.x * kKeysOfThread;
  for (int j = 0; j < kKeysOfThread && begin + j < pass.count; ++j) {
    const std::uint64_t key = pass.keys[begin + j];
    const auto digit = static_cast<int>(key >> pass.shift) & (kDigits - 1);
    body(key, counters[digit * kPitch + thread_in_block()]);
  }
}

__device__ std::uint32_t* count_keys(const Pass& pass) {
  auto* counters = shared_memory<std::uint32_t>();
  for (int digit = 0; digit < kDigits; ++digit) counters[digit * kPitch + thread_in_block()] = 0;
  over_keys(pass, counters, [](std::uint64_t, std::uint32_t& counter) { ++counter; });
  __syncthreads();
  return counters;
}

__global__ void count_digits(Pass pass) {
  const std::uint32_t* counters = count_keys(pass);
  if (threadIdx.x >= kDigits) return;
  std::uint32_t sum = 0;
  for (int thread = 0; thread < kThreads; ++thread) sum += counters[thread_in_block() * kPitch + thread];
  pass.counts[threadIdx.x * gridDim.x + blockIdx.x] = sum;
}

/// Replaces the counts by their exclusive prefix sums. Runs as one block.
__global__ void sum_counts_before(std::uint32_t* counts, std::int64_t count) {
  auto* sums = shared_memory<std::uint32_t>();
  const std::int64_t strip = (count + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * strip;
  const std::int64_t end = begin + strip < count ? begin + strip : count;
  std::uint32_t own = 0;
  for (std::int64_t i = begin; i < end; ++i) own += counts[i];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
    const std::uint32_t before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  std::uint32_t next = sums[threadIdx.x] - own;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::uint32_t here = counts[i];
    counts[i] = next;
    next += here;
  }
}

__global__ void move_keys(Pass pass) {
  std::uint32_t* counters = count_keys(pass);
  if (threadIdx.x < kDigits) {  // one thread per digit: counts become offsets into `sorted`
    std::uint32_t next = pass.counts[threadIdx.x * gridDim.x + blockIdx.x];
    std::uint32_t* of_threads = counters + thread_in_block() * kPitch;
#pragma unroll 8
    for (int thread = 0; thread < kThreads; ++thread) {
      const std::uint32_t here = of_threads[thread];
      of_threads[thread] = next;
      next += here;
    }
  }
  __syncthreads();
  over_keys(pass, counters, [&](std::uint64_t key, std::uint32_t& counter) { pass.sorted[counter++] = key; });
}

}  // namespace

const std::uint64_t* sort_places(Stream& stream, void* work, const std::int32_t* rows, std::int64_t first,
                                 std::int64_t table_rows, std::int64_t count) {
  auto* keys = static_cast<std::uint64_t*>(work);
  auto* sorted = keys + count;
  auto* counts = reinterpret_cast<std::uint32_t*>(sorted + count);
  const auto tiles = static_cast<unsigned>(tiles_of(count));
  const std::int64_t all_counts = std::int64_t{kDigits} * tiles;
  launch(stream, make_keys, flat_shape(count), keys, rows, first, table_rows, count);
  if (count == 0) return keys;
  const int bits = std::bit_width(static_cast<std::uint64_t>(table_rows));
  for (int bit = 0; bit < bits; bit += kDigitBits) {
    const Pass pass{.sorted = sorted, .counts = counts, .keys = keys, .count = count, .shift = 32 + bit};
    launch(stream, count_digits, {tiles, kThreads, kShared}, pass);
    const auto threads = static_cast<unsigned>(std::min<std::int64_t>(all_counts, 1024));
    launch(stream, sum_counts_before, {1, threads, threads * sizeof(std::uint32_t)}, counts, all_counts);
    launch(stream, move_keys, {tiles, kThreads, kShared}, pass);
    std::swap(keys, sorted);
  }
  return keys;
}

std::size_t sort_work(std::int64_t count) {
  return 2 * count * sizeof(std::uint64_t) + kDigits * tiles_of(count) * sizeof(std::uint32_t);
}

}  // namespace mtl::cuda
