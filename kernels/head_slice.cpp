#include "kernels/head_slice.h"

#include "kernels/stream_types.h"

namespace mtl {

std::size_t HeadSlice::bytes() const { return tensor.bytes() / tensor.size(3) * count; }

Shape HeadSlice::heads() const { return {tensor.size(0), tensor.size(1), tensor.size(2), count}; }

void check_slice(const char* what, const HeadSlice& slice) {
  require(slice.tensor.shape().rank() == 5 && slice.count >= 1 && slice.first >= 0 &&
              slice.first + slice.count <= slice.tensor.size(3),
          what, ": needs heads ", slice.first, " to ", slice.first + slice.count, " of (B, T, G, heads, D), got ",
          slice.tensor.shape().text());
  expect_computed(what, slice.tensor);
  expect_tensor(what, slice.tensor, slice.tensor.dtype(), slice.tensor.shape());
}

}  // namespace mtl
