// The sum of squares on CUDA: two launches for up to 320 tensors, and the order of the additions.
#include "kernels/elementwise.h"

#include "tests/kernels/reference.h"
#include "tests/mirror/queue.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Adds up the values of a block's 512 threads: by warps, and then the warps' sums; halves are added to each other.
double block_sum(std::vector<double> threads) {
  const auto warp_sum = [](double* values) {
    for (int distance = 16; distance > 0; distance /= 2) {
      for (int i = 0; i < distance; ++i) values[i] += values[i + distance];
    }
    return values[0];
  };
  std::vector<double> warps(32, 0.0);
  for (std::size_t warp = 0; warp < 16; ++warp) warps[warp] = warp_sum(&threads[32 * warp]);
  return warp_sum(warps.data());
}

/// Sums the squares of one tensor: blocks of 65536 elements, in which 512 threads sum packs of `n` elements in turn,
/// then the blocks' sums, by 512 threads in turn.
double sum_of(const std::vector<double>& x, std::size_t n) {
  constexpr std::size_t kThreads = 512, kBlock = 65536;
  std::vector<double> total(kThreads, 0.0);
  for (std::size_t begin = 0; begin < x.size(); begin += kBlock) {
    std::vector<double> threads(kThreads, 0.0);
    for (std::size_t i = begin; i < std::min(begin + kBlock, x.size()); ++i)
      threads[(i - begin) / n % kThreads] += x[i] * x[i];
    total[begin / kBlock % kThreads] += block_sum(threads);
  }
  return block_sum(total);
}

}  // namespace

TEST_CASE("sum_of_squares: two launches sum all tensors, in the same order as each by itself") {
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 20);
  Owned out(DType::f64, {1});
  const std::vector<std::int64_t> sizes{3, 0, 1, 524288, 65536, 7, 300001, 40 * 65536 + 8};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<Owned> owned;
    double expected = 0;
    for (const std::int64_t size : sizes) {
      owned.push_back(random_tensor(dtype, {size}, static_cast<unsigned>(size)));
      expected += sum_of(owned.back().values(), size % 8 == 0 ? 8 : 1);
    }
    const std::vector<Tensor> tensors(owned.begin(), owned.end());
    out.tensor();
    const std::int64_t before = mirror::queue_counts().commands;
    sum_of_squares(stream, scratch, out, tensors);
    CHECK(mirror::queue_counts().commands - before == 2);
    CHECK(*out.host<double>() == expected);
  }
}

TEST_CASE("sum_of_squares: tensors that do not fit into one launch are added to the others") {
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 20);
  const Owned x = random_tensor({650}, 1);
  Owned out(DType::f64, {1});
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < x.numel(); ++i) tensors.push_back(x.tensor().flat(i, 1));
  sum_of_squares(stream, scratch, out, tensors);
  double expected = 0;
  for (double value : x.values()) expected += value * value;
  CHECK(*out.host<double>() == expected);
  sum_of_squares(stream, scratch, out, {});
  CHECK(*out.host<double>() == 0);
}
