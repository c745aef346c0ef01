#include "kernels/head_slice.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

std::size_t HeadSlice::bytes() const { return tensor.bytes() / tensor.size(3) * count; }

Shape HeadSlice::heads() const { return {tensor.size(0), tensor.size(1), tensor.size(2), count}; }

void check_slice(const char* what, const HeadSlice& slice) {
  require(slice.tensor.shape().rank() == 5 && slice.count >= 1 && slice.first >= 0 &&
              slice.first + slice.count <= slice.tensor.size(3),
          what, ": needs heads ", slice.first, " to ", slice.first + slice.count, " of (B, T, G, heads, D), got ",
          slice.tensor.shape());
  expect_computed(what, slice.tensor);
  expect_tensor(what, slice.tensor, slice.tensor.dtype(), slice.tensor.shape());
}

void copy_heads(Stream& stream, const HeadSlice& to, const HeadSlice& from, const HeadCopy& how) {
  check_slice("copied heads", to);
  check_slice("heads to copy", from);
  require(to.count == from.count && to.tensor.size(4) == from.tensor.size(4) &&
              to.tensor.size(0) == from.tensor.size(0) && to.tensor.size(2) == from.tensor.size(2),
          "cannot copy ", from.count, " heads of ", from.tensor.shape(), " to ", to.count, " heads of ",
          to.tensor.shape());
  require(how.to.is_whole() || how.from.is_whole(), "cannot copy heads from a part to a part of a sequence");
  require(to.tensor.size(1) * how.from.parts == from.tensor.size(1) * how.to.parts, "cannot copy positions of ",
          from.tensor.shape(), " to ", to.tensor.shape());
  const auto moved = double(std::min(to.tensor.size(1), from.tensor.size(1))) /
                     double(std::max(to.tensor.size(1), from.tensor.size(1)));
  const auto bytes = [&](const HeadSlice& slice, const SequencePart& part) {
    return double(slice.bytes()) * (part.is_whole() ? 1 : moved);
  };
  const int writes = how.mode == GradMode::overwrite ? 1 : 2;
  stream.count(0, writes * bytes(to, how.to) + bytes(from, how.from));
  run<cpu::copy_heads, cuda::copy_heads>(stream, to, from, how);
}

}  // namespace mtl
