#include "formats/torch_tensor.h"

#include <algorithm>
#include <cstring>

#include "layout/slice.h"

namespace mtl {

std::int64_t TorchTensor::count() const { return whole_slice(shape).count(); }

bool TorchTensor::is_contiguous() const {
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

void read_elements(const TorchTensor& tensor, std::int64_t begin, std::span<std::byte> out) {
  const std::size_t element = bits_of(tensor.dtype) / 8;
  auto left = static_cast<std::int64_t>(out.size() / element);
  if (left == 0) return;
  std::int64_t run = 1;  // number of elements in the contiguous trailing axes
  std::size_t outer = tensor.shape.size();
  for (; outer > 0 && (tensor.strides[outer - 1] == run || tensor.shape[outer - 1] == 1); --outer)
    run *= tensor.shape[outer - 1];
  std::vector<std::int64_t> index(outer);
  std::int64_t row = begin / run, within = begin % run, at = 0;
  for (std::size_t axis = outer; axis-- > 0; row /= tensor.shape[axis]) {
    index[axis] = row % tensor.shape[axis];
    at += index[axis] * tensor.strides[axis];
  }
  for (std::byte* to = out.data(); left > 0; within = 0) {
    const std::int64_t count = std::min(left, run - within);
    std::memcpy(to, tensor.data.data() + element * (at + within), element * count);
    to += element * count;
    left -= count;
    for (std::size_t axis = outer; axis-- > 0;) {
      at += tensor.strides[axis];
      if (++index[axis] < tensor.shape[axis]) break;
      at -= tensor.shape[axis] * tensor.strides[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace mtl
