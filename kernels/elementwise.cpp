#include "kernels/elementwise.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
double bytes_of(const Tensor& tensor) { return double(tensor.bytes()); }
}  // namespace

void fill_zero(Stream& stream, Tensor out) {
  stream.count(0, bytes_of(out));
  run<cpu::fill_zero, cuda::fill_zero>(stream, out);
}

void copy(Stream& stream, Tensor out, Tensor in) {
  expect_tensor("copy in", in, out.dtype(), out.shape());
  stream.count(0, 2 * bytes_of(out));
  run<cpu::copy, cuda::copy>(stream, out, in);
}

void add(Stream& stream, Tensor out, Tensor in) {
  expect_computed("add in", in);
  expect_tensor("add in", in, out.dtype(), out.shape());
  stream.count(0, 3 * bytes_of(out));
  run<cpu::add, cuda::add>(stream, out, in);
}

void sum_of_squares(Stream& stream, Arena& scratch, Tensor out, const std::vector<Tensor>& in) {
  expect_tensor("sum_of_squares out", out, DType::f64, {1});
  double bytes = 0;
  for (const Tensor& tensor : in) {
    expect_computed("sum_of_squares in", tensor);
    expect_tensor("sum_of_squares in", tensor, in[0].dtype(), tensor.shape());
    bytes += bytes_of(tensor);
  }
  Arena::Mark mark(scratch);
  Tensor work = make_work<cpu::sum_of_squares_work, cuda::sum_of_squares_work>(stream, scratch, in);
  stream.count(0, bytes);
  run<cpu::sum_of_squares, cuda::sum_of_squares>(stream, work, out, in);
}

void find_nonfinite(Stream& stream, Tensor found, Tensor in) {
  expect_tensor("find_nonfinite found", found, DType::i32, {1});
  expect_computed("find_nonfinite in", in);
  stream.count(0, bytes_of(in));
  run<cpu::find_nonfinite, cuda::find_nonfinite>(stream, found, in);
}

void count_zeros(Stream& stream, Tensor count, Tensor in) {
  expect_tensor("count_zeros count", count, DType::i64, {1});
  expect_computed("count_zeros in", in);
  stream.count(0, bytes_of(in));
  run<cpu::count_zeros, cuda::count_zeros>(stream, count, in);
}

}  // namespace mtl
