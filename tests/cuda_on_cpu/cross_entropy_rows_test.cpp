// Cross-entropy on CUDA: a row that fits stays in shared memory, and others are read twice, with the same bits.
#include "kernels/cross_entropy.h"
#include "tests/cuda_on_cpu/grid.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A GPU whose blocks may have `bytes` of shared memory.
struct SharedLimit {
  explicit SharedLimit(std::size_t bytes) { emulated::most_shared_bytes = bytes; }
  ~SharedLimit() { emulated::most_shared_bytes = before; }
  SharedLimit(const SharedLimit&) = delete;
  std::size_t before = emulated::most_shared_bytes;
};

}  // namespace

TEST_CASE(
    "cross_entropy: rows in shared memory, up to the GPU's limit, give the same bits as rows that are read twice") {
  constexpr std::int64_t kRows = 5;
  Stream stream(kDevice);
  for (const auto& [vocab, padded] : {std::pair{1031, 1031}, std::pair{1031, 1040}, std::pair{9001, 9003}}) {
    const std::size_t bytes = 256 + (static_cast<std::size_t>(padded) + 3) * 4;  // sums, and a row at any alignment
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(padded);
      const Owned labels = random_integers({kRows}, 0, vocab, 1), weights = random_tensor({kRows}, 2);
      const auto gradient = [&](std::size_t limit, const Owned& losses) {
        const SharedLimit gpu(limit);
        const Owned logits = random_tensor({kRows, padded}, 3, 3), narrow(dtype, {kRows, padded});
        const Owned& out = dtype == DType::f32 ? logits : narrow;  // in place in fp32
        cross_entropy_forward_backward(stream, losses, out, logits, labels, weights, vocab);
        return out.values();
      };
      const Owned losses({kRows}), losses_twice({kRows});
      const std::vector<double> once = gradient(bytes, losses);
      CHECK(emulated::last_shared_bytes == bytes);
      CHECK(gradient(bytes - 1, losses_twice) == once);
      CHECK(emulated::last_shared_bytes == 256);
      CHECK(same_bits(losses, losses_twice));
    }
  }
}
