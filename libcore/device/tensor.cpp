#include "device/tensor.h"

namespace mtl {

Shape::Shape(std::initializer_list<std::int64_t> sizes) {
  for (std::int64_t size : sizes) push_back(size);
}

void Shape::push_back(std::int64_t size) {
  require(rank_ < kMaxRank && size >= 0, "a shape has at most ", kMaxRank, " dimensions, none negative");
  sizes_[rank_++] = size;
}

std::int64_t Shape::numel() const {
  std::int64_t product = rank_ == 0 ? 0 : 1;
  for (int axis = 0; axis < rank_; ++axis) product *= sizes_[axis];
  return product;
}

std::string Shape::text() const {
  std::string out = "(";
  for (int axis = 0; axis < rank_; ++axis) out += cat(axis > 0 ? ", " : "", (*this)[axis]);
  return out + ")";
}

Tensor Tensor::view(Shape shape) const {
  require(shape.numel() == numel(), "cannot view ", shape_, " as ", shape);
  return {data_, dtype_, shape};
}

Tensor Tensor::flat(std::int64_t begin, std::int64_t count) const {
  require(begin >= 0 && count >= 0 && begin + count <= numel(), "elements ", begin, " + ", count, " are not within ",
          shape_);
  auto* start = static_cast<char*>(data_);
  return {data_ == nullptr ? nullptr : start + begin * size_of(dtype_), dtype_, {count}};
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  std::int64_t row = numel() / std::max<std::int64_t>(1, shape_[0]);
  Tensor part = flat(begin * row, count * row);
  Shape shape{count};
  for (int axis = 1; axis < shape_.rank(); ++axis) shape.push_back(shape_[axis]);
  return part.view(shape);
}

void expect_tensor(const char* what, const Tensor& tensor, DType dtype, const Shape& shape) {
  if (tensor.dtype() == dtype && tensor.shape() == shape) [[likely]]
    return;
  fail(Exit::failure, what, ": expected ", name_of(dtype), " ", shape.text(), ", got ", name_of(tensor.dtype()), " ",
       tensor.shape().text());
}

}  // namespace mtl
