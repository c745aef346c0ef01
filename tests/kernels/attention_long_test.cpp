// Attention with long sequences and many heads, where a GPU runs its blocks in several waves: the kernels for Hopper
// against the tiles. The reference in fp64 would take hours here; shorter sequences are compared with it.
#include <algorithm>
#include <array>
#include <vector>

#include "device/cuda_device.h"
#include "kernels/attention_variant.h"
#include "tests/kernels/attention_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A tensor on the host.
struct HostCopy {
  std::vector<Bf16> values;
  Tensor tensor;

  explicit HostCopy(const Owned& from)
      : values(from.host<Bf16>(), from.host<Bf16>() + from.numel()),
        tensor(values.data(), from.dtype(), from.shape()) {}
};

/// Returns the output and the gradient of q, k and v, both computed with one variant.
std::array<HostCopy, 2> results_of(const AttentionProblem& problem, const std::string& variant) {
  for (const Owned* result : {&problem.out, &problem.dqkv})
    std::fill_n(result->host<Bf16>(), result->numel(), Bf16{0xFFFF});  // NaN
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", std::size_t{256} << 20);
  const AttentionInput in = problem.input();
  stream.choices().set(attention_forward_key(in), variant);
  stream.choices().set(attention_backward_key(in), variant);
  attention_forward(stream, scratch, problem.out, problem.logsumexp, in);
  attention_backward(stream, scratch, unpack_qkv(problem.dqkv), problem.dout, problem.out, problem.logsumexp, in);
  stream.synchronize();
  CHECK(stream.choices().find(attention_forward_key(in)) == variant);
  CHECK(stream.choices().find(attention_backward_key(in)) == variant);
  return {HostCopy(problem.out), HostCopy(problem.dqkv)};
}

}  // namespace

TEST_CASE("attention hopper long: 8,192 tokens and 128 heads agree with the tiles") {
  const CudaDevice gpu = find_cuda_device();
  const int capability = gpu.usable() ? 10 * gpu.major + gpu.minor : 0;
  if (capability != 90) {
    MESSAGE("skipped: needs a GPU of compute capability 9.0");
    return;
  }
  for (const AttentionCase& c : {AttentionCase{2, 8192, 64, 1, 64}, AttentionCase{1, 8192, 16, 8, 128},
                                 AttentionCase{1, 8192, 16, 8, 64}.with_documents().with_window(3000)}) {
    CAPTURE(c.dim);
    CAPTURE(c.documents);
    const AttentionProblem problem(c.in_dtype(DType::bf16));
    const auto tiles = results_of(problem, "tiles"), hopper = results_of(problem, "hopper");
    for (std::size_t i = 0; i < tiles.size(); ++i) CHECK(difference_of(tiles[i].tensor, hopper[i].tensor) == "");
  }
}
