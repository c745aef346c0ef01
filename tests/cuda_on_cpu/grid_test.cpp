// The grid of fibers: it computes like a GPU, and detects errors that a GPU would hide or fault on.
#include "tests/cuda_on_cpu/grid.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "tests/cuda_on_cpu/kernels/cuda/platform.h"

using namespace mtl;
using namespace mtl::emulated;

namespace {

/// Each thread writes an element of shared memory and then reads its neighbor's element. With `with_barrier`, there is
/// a barrier in between. Returns what the threads read.
std::vector<float> shift(bool with_barrier) {
  std::vector<float> out(64, -1);
  run_grid(1, 64, 64 * sizeof(float), [&] {
    auto* shared = static_cast<float*>(shared_memory());
    shared[threadIdx.x] = static_cast<float>(threadIdx.x);
    if (with_barrier) wait_for_block();
    out[threadIdx.x] = shared[(threadIdx.x + 1) % 64];
  });
  return out;
}

}  // namespace

TEST_CASE("grid: every thread of every block runs once, with its own indices") {
  std::vector<int> visits(3 * 2 * 5 * 96);
  run_grid({3, 2, 5}, 96, 0, [&] {
    CHECK(gridDim.x * gridDim.y * gridDim.z == 30);
    CHECK(blockDim.x == 96);
    const unsigned block = (blockIdx.z * 2 + blockIdx.y) * 3 + blockIdx.x;
    ++visits[block * 96 + threadIdx.x];
  });
  CHECK(visits == std::vector<int>(visits.size(), 1));
}

TEST_CASE("grid: a barrier orders shared memory; without it, NaN is read") {
  std::vector<float> expected(64);
  for (int i = 0; i < 64; ++i) expected[i] = static_cast<float>((i + 1) % 64);
  CHECK(shift(true) == expected);
  const std::vector<float> raced = shift(false);
  CHECK(std::any_of(raced.begin(), raced.end(), [](float x) { return std::isnan(x); }));
}

TEST_CASE("grid: the order of blocks and lanes differs from launch to launch") {
  std::set<unsigned> first_blocks, first_lanes;
  for (int launch = 0; launch < 20; ++launch) {
    bool any = false;
    run_grid(8, 32, 0, [&] {
      if (any) return;
      any = true;
      first_blocks.insert(blockIdx.x);
      first_lanes.insert(threadIdx.x);
    });
  }
  CHECK(first_blocks.size() > 3);
  CHECK(first_lanes.size() > 3);
}

TEST_CASE("grid: shuffles return the value that the other lane passed, one after another") {
  std::vector<int> out(64);
  run_grid(1, 64, 0, [&] {
    int value = static_cast<int>(threadIdx.x);
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
    value += __shfl_sync(~0u, static_cast<int>(threadIdx.x), 3);
    value += __any_sync(~0u, threadIdx.x == 40) * 100000;
    out[threadIdx.x] = value;
  });
  const int sum_first = 31 * 32 / 2, sum_second = sum_first + 32 * 32;
  for (int i = 0; i < 64; ++i) CHECK(out[i] == (i < 32 ? sum_first + 3 : sum_second + 35 + 100000));
}

TEST_CASE("grid: lanes that wait at different places, or by themselves, are reported") {
  CHECK_THROWS_WITH_AS(run_grid(1, 32, 0,
                                [] {
                                  if (threadIdx.x < 16)
                                    __shfl_sync(~0u, 1, 0);
                                  else
                                    __syncwarp();
                                }),
                       doctest::Contains("lanes of one warp wait at"), Error);
  CHECK_THROWS_WITH_AS(run_grid(1, 32, 0,
                                [] {
                                  if (threadIdx.x < 16) __syncwarp();
                                }),
                       doctest::Contains("16 lanes of a warp wait at __syncwarp, the others have ended"), Error);
  CHECK_THROWS_WITH_AS(run_grid(1, 64, 0,
                                [] {
                                  if (threadIdx.x % 2 == 0)
                                    __syncwarp();
                                  else
                                    __syncthreads();
                                }),
                       doctest::Contains("the others wait for the block"), Error);
  CHECK(shift(true).size() == 64);  // the grid runs again after errors
}

TEST_CASE("grid: refuses invalid launches, writes before shared memory, and unaligned accesses") {
  CHECK_THROWS_AS(run_grid(1, 33, 0, [] {}), Error);
  CHECK_THROWS_AS(run_grid(1, 2048, 0, [] {}), Error);
  CHECK_THROWS_AS(run_grid(1, 32, 300 << 10, [] {}), Error);
  CHECK_THROWS_WITH_AS(run_grid(1, 32, 64, [] { static_cast<float*>(shared_memory())[-1] = 0; }),
                       doctest::Contains("before its shared memory"), Error);
  alignas(16) static float row[8] = {};
  CHECK_THROWS_WITH_AS(run_grid(1, 32, 0, [] { cuda::expect_aligned(row + 1, 16); }), doctest::Contains("not aligned"),
                       Error);
}
