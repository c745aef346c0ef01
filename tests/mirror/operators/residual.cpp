#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum) {
  forward<cpu::residual_forward>(stream, out, sum);
}
void residual_backward(Stream& stream, Tensor work, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  forward<cpu::residual_backward>(stream, cpu_part(work), dbranch, dbias, dout, dropout, rows);
}
std::size_t residual_backward_work(const Stream& stream, std::int64_t rows, std::int64_t width) {
  return cpu::residual_backward_work(stream, rows, width) + kMoreWork;
}

}  // namespace mtl::cuda
