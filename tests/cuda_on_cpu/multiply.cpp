// Plays cuBLASLt with the cpu's product. Like the library, it has no fused epilogue for some shapes: here those whose
// rows are not a multiple of 16 bytes.
#include <vector>

#include "kernels/cpu.h"
#include "kernels/gemm_cuda.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/space.h"

namespace mtl::cuda {

namespace {

/// A unit of the cpu's scratch. A Buffer would be counted, and a run makes none after its first step.
struct alignas(64) Cacheline {
  std::byte bytes[64];
};

/// Throws unless cuBLASLt takes these dtypes together.
void expect_supported(const Product& product, const FusedEpilogue& epilogue) {
  const DType a = product.a.tensor.dtype(), c = product.c.dtype();
  require(product.b.tensor.dtype() == a && (c == a || c == DType::f32), "cuBLASLt has no product of ", name_of(a),
          " into ", name_of(c));
  require(!epilogue.aux.exists() || epilogue.aux.dtype() == c, "cuBLASLt has no aux of another dtype than C");
}

}  // namespace

bool multiply(Stream& stream, Tensor workspace, const Product& product, const FusedEpilogue& epilogue) {
  expect_supported(product, epilogue);
  require(workspace.bytes() == kGemmWorkspace, "cuBLASLt's workspace has ", workspace.bytes(), " bytes");
  mirror::require_inside(workspace.raw(), workspace.bytes());
  const bool fuses = epilogue.bias.exists() || epilogue.act != Epilogue::Act::none;
  if (fuses && static_cast<std::size_t>(product.n()) * size_of(product.c.dtype()) % 16 != 0) return false;
  const Epilogue asked{.bias = epilogue.bias, .act = epilogue.act, .aux = epilogue.aux};
  const GradMode mode = product.accumulate ? GradMode::accumulate : GradMode::overwrite;
  mirror::enqueue(stream.handle(), [=] {
    Stream host(Device::cpu);
    std::vector<Cacheline> work(cpu::gemm_work(host, product.c, product.a, product.b, mode, asked) / sizeof(Cacheline) +
                                1);
    mirror::Opened opened;
    const Tensor area(work.data(), DType::u8, {static_cast<std::int64_t>(work.size() * sizeof(Cacheline))});
    cpu::gemm(host, area, product.c, product.a, product.b, mode, asked);
  });
  return true;
}

}  // namespace mtl::cuda
