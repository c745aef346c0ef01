#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  forward<cpu::embedding_forward>(stream, out, tokens, vocab_begin, table);
}
void embedding_backward(Stream& stream, Tensor work, Grad dtable, Tensor dout, Tensor tokens,
                        std::int64_t vocab_begin) {
  forward<cpu::embedding_backward>(stream, cpu_part(work), dtable, dout, tokens, vocab_begin);
}
void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows) {
  forward<cpu::positions_forward>(stream, x, positions, table, dropout, rows);
}
void positions_backward(Stream& stream, Tensor work, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout,
                        const RowMap& rows) {
  forward<cpu::positions_backward>(stream, cpu_part(work), dtable, dx, positions, dropout, rows);
}
std::size_t scatter_work(const Stream& stream, Tensor dtable, std::int64_t places) {
  return cpu::scatter_work(stream, dtable, places) + kMoreWork;
}

}  // namespace mtl::cuda
