// Attention by cuDNN: an emulated library interprets the graph's operations, strides, masks and workspace.
#include "kernels/attention_cuda.h"
#include "kernels/attention_variant.h"
#include "kernels/cuda/cudnn.h"
#include "tests/kernels/attention_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Installed {
  Installed() { emulated::cudnn_is_installed() = true; }
  ~Installed() { emulated::cudnn_is_installed() = false; }
  Installed(const Installed&) = delete;
};

/// Every head size; groups with one query head, one group, and groups with multiple heads: fewer and more than
/// sequences.
const AttentionCase kCudnnCases[] = {
    {2, 37, 3, 1, 64},  {1, 70, 1, 4, 64}, {1, 20, 2, 1, 80}, {1, 33, 2, 1, 96},
    {2, 48, 1, 2, 128}, {2, 33, 3, 2, 64}, {3, 20, 2, 4, 96}, {1, 70, 2, 2, 128},
};

const AttentionCase kPlain = AttentionCase{1, 20, 2, 1, 64}.in_dtype(DType::bf16);

void forward(Stream& stream, const AttentionProblem& problem, const Tensor& logsumexp) {
  Arena scratch(Device::cuda, "scratch", std::size_t{1} << 16);
  attention_forward(stream, scratch, problem.out, logsumexp, problem.input());
}

}  // namespace

TEST_CASE("attention cudnn: forward equals the fp64 reference, with and without logsumexp") {
  const Installed installed;
  for (const AttentionCase& c : kCudnnCases) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      CAPTURE(c.length);
      CAPTURE(c.dim);
      const AttentionProblem problem(c.in_dtype(dtype));
      const AttentionReference expected = attention_reference(problem);
      Stream stream(Device::cuda);
      stream.set_attention_backend(AttentionBackend::fused);
      forward(stream, problem, problem.logsumexp);
      CHECK(relative_rms(problem.out, expected.out) < rounding_of(dtype, kTolerance.elementwise));
      CHECK(relative_rms(problem.logsumexp, expected.logsumexp) < kTolerance.elementwise);
      const AttentionProblem again(c.in_dtype(dtype));
      forward(stream, again, {});
      CHECK(again.out.values() == problem.out.values());
    }
  }
}

TEST_CASE("attention cudnn: a plan is compiled once for a shape, with the first engine that fits the workspace") {
  const Installed installed;
  const AttentionProblem problem(kPlain), longer(AttentionCase{1, 21, 2, 1, 64}.in_dtype(DType::bf16));
  Stream stream(Device::cuda);
  stream.set_attention_backend(AttentionBackend::fused);
  const emulated::CudnnCounts before = emulated::cudnn_counts();
  forward(stream, problem, problem.logsumexp);
  forward(stream, problem, problem.logsumexp);
  CHECK(emulated::cudnn_counts().plans - before.plans == 2);  // the first engine needs too much workspace
  forward(stream, longer, longer.logsumexp);
  CHECK(emulated::cudnn_counts().plans - before.plans == 4);
  CHECK(emulated::cudnn_counts().runs - before.runs == 3);
}

TEST_CASE("attention cudnn: auto considers it only where it is installed, flash never does") {
  const AttentionProblem problem(kPlain);
  const auto runs_with = [&](AttentionBackend backend) {
    const int before = emulated::cudnn_counts().runs;
    Stream stream(Device::cuda);
    stream.set_attention_backend(backend);
    forward(stream, problem, problem.logsumexp);
    CHECK(stream.choices().refusals().empty());
    return emulated::cudnn_counts().runs - before;
  };
  CHECK(runs_with(AttentionBackend::automatic) == 0);
  CHECK(cuda::attention_library() == "no cuDNN");
  const Installed installed;
  CHECK(runs_with(AttentionBackend::automatic) > 0);
  CHECK(runs_with(AttentionBackend::flash) == 0);
  CHECK(cuda::attention_library() == "cuDNN 91900");
}

TEST_CASE("attention cudnn: fused refuses a call that cuDNN does not compute, and a missing library") {
  Stream stream(Device::cuda);
  stream.set_attention_backend(AttentionBackend::fused);
  const AttentionProblem plain(kPlain);
  CHECK_THROWS_WITH(forward(stream, plain, plain.logsumexp), doctest::Contains("libcudnn.so"));
  const Installed installed;
  for (const AttentionCase& c : {kPlain.with_documents(), kPlain.with_dropout(0.1f), kPlain.with_window(7),
                                 AttentionCase{1, 20, 2, 1, 72}.in_dtype(DType::bf16)}) {
    const AttentionProblem problem(c);
    CHECK_THROWS_WITH(forward(stream, problem, problem.logsumexp), doctest::Contains("choose auto or flash"));
  }
}
