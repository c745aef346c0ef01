#include "tests/mirror/forward.h"

namespace mtl::cuda {

using namespace mirror;

void fill_zero(Stream& stream, Tensor out) { forward<cpu::fill_zero>(stream, out); }
void copy(Stream& stream, Tensor out, Tensor in) { forward<cpu::copy>(stream, out, in); }
void add(Stream& stream, Tensor out, Tensor in) { forward<cpu::add>(stream, out, in); }
void scale(Stream& stream, Tensor out, float factor) { forward<cpu::scale>(stream, out, factor); }
void sum_of_squares(Stream& stream, Tensor work, Tensor out, Tensor in, GradMode mode) {
  forward<cpu::sum_of_squares>(stream, cpu_part(work), out, in, mode);
}
std::size_t sum_of_squares_work(const Stream& stream, std::int64_t count) {
  return cpu::sum_of_squares_work(stream, count) + kMoreWork;
}
void find_nonfinite(Stream& stream, Tensor found, Tensor in) { forward<cpu::find_nonfinite>(stream, found, in); }

}  // namespace mtl::cuda
