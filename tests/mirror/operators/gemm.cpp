#include "kernels/gemm_cuda.h"
#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void gemm(Stream& stream, Tensor work, Tensor c, const Operand& a, const Operand& b, GradMode mode,
          const Epilogue& epilogue) {
  forward<cpu::gemm>(stream, cpu_part(work), c, a, b, mode, epilogue);
}
std::size_t gemm_work(const Stream& stream, Tensor c, const Operand& a, const Operand& b, GradMode mode,
                      const Epilogue& epilogue) {
  return cpu::gemm_work(stream, c, a, b, mode, epilogue) + kMoreWork;
}
std::string product_library() { return "the cpu's products"; }

}  // namespace mtl::cuda
