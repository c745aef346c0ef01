// Tensor core functions: a warp's matmul equals its definition, and copied data arrive only when waited for.
#include "tests/cuda_on_cpu/kernels/cuda/mma.h"

#include <doctest/doctest.h>

#include <vector>

using namespace mtl;
using namespace mtl::cuda;

namespace {

/// Returns a number that bf16 and f16 represent exactly.
float number(int i) { return static_cast<float>(i * 37 % 61 - 30) / 8; }

/// Returns D (16, 8) = A (16, 16) B + 1. B is stored column by column. If `transposed`, it is stored row by row and
/// transposed when read.
template <class T>
std::vector<float> product(bool transposed) {
  std::vector<float> out(16 * 8);
  emulated::run_grid(1, 32, (256 + 256) * sizeof(T), [&] {
    T *a = shared_memory<T>(), *b = a + 256;
    const unsigned lane = threadIdx.x, r = lane % 8, i = lane / 8;
    for (unsigned e = lane; e < 256; e += 32) {
      a[e] = narrow<T>(number(static_cast<int>(e)));
      b[e] = narrow<T>(number(static_cast<int>(e + 1000)));
    }
    __syncwarp();
    std::uint32_t of_a[4], of_b[4];
    ldmatrix_x4(of_a, a + (i % 2 * 8 + r) * 16 + i / 2 * 8);
    if (transposed)
      ldmatrix_x4_trans(of_b, b + (i % 2 * 8 + r) * 16 + i / 2 * 8);  // (16 k, 16 n)
    else
      ldmatrix_x4(of_b, b + (i / 2 * 8 + r) * 16 + i % 2 * 8);  // (16 n, 16 k)
    float d[4] = {1, 1, 1, 1};
    mma_16x8x16<T>(d, of_a, of_b[0], of_b[1]);
    for (unsigned j = 0; j < 4; ++j) out[(lane / 4 + j / 2 * 8) * 8 + lane % 4 * 2 + j % 2] = d[j];
  });
  return out;
}

template <class T>
void check_products() {
  for (const bool transposed : {false, true}) {
    const std::vector<float> out = product<T>(transposed);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        float sum = 1;
        for (int k = 0; k < 16; ++k)
          sum += number(row * 16 + k) * number(1000 + (transposed ? k * 16 + column : column * 16 + k));
        CHECK(out[static_cast<std::size_t>(row * 8 + column)] == sum);
      }
    }
  }
}

}  // namespace

TEST_CASE("mma: a warp's product equals its definition, in bf16 and f16") {
  check_products<Bf16>();
  check_products<Half>();
}

TEST_CASE("mma: a pair has its first element in the low half, rounded") {
  CHECK(pack_pair<Bf16>(1.0f, -2.0f) == 0xc0003f80u);
  CHECK(pack_pair<Half>(1.0f, 1 + 0x1p-12f) == 0x3c003c00u);
}

TEST_CASE("cp.async: a copy is complete when waited for, NaN before, zeros out of bounds") {
  alignas(16) float from[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float before = 0, first = 0, second_before = 0, second = 0, outside = 1, single = 0;
  emulated::run_grid(1, 32, 64, [&] {
    if (threadIdx.x != 5) return;
    auto* to = shared_memory<float>();
    cp_async_16(to, from, true);
    cp_async_commit();
    cp_async_16(to + 4, from + 4, true);
    cp_async_16(to + 8, nullptr, false);
    cp_async_4(to + 12, from + 2, true);
    cp_async_commit();
    before = to[0];
    cp_async_wait<1>();
    first = to[3];
    second_before = to[4];
    cp_async_wait<0>();
    second = to[4];
    outside = to[8];
    single = to[12];
  });
  CHECK(std::isnan(before));
  CHECK(first == 4);
  CHECK(std::isnan(second_before));
  CHECK(second == 5);
  CHECK(outside == 0);
  CHECK(single == 3);
  CHECK_THROWS_WITH_AS(emulated::run_grid(1, 32, 64, [&] { cp_async_16(shared_memory<float>() + 1, from, true); }),
                       doctest::Contains("not aligned"), Error);
}
