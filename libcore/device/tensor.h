// A tensor is a non-owning view: an address, an element type and a shape. Elements are contiguous, in row-major order.
// Copying a Tensor copies the view. On meta, the address is null, and only dtype and shape matter.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/error.h"
#include "device/dtype.h"

namespace mtl {

inline constexpr int kMaxRank = 6;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  std::int64_t numel() const;
  void push_back(std::int64_t size);
  bool operator==(const Shape&) const = default;
  std::string text() const;  // "(4, 128, 768)"

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, DType dtype, Shape shape) : data_(data), dtype_(dtype), shape_(shape) {}

  /// Returns false for a default-constructed tensor, which stands for an absent operand.
  bool exists() const { return shape_.rank() > 0; }
  const Shape& shape() const { return shape_; }
  std::int64_t size(int axis) const { return shape_[axis]; }
  std::int64_t numel() const { return shape_.numel(); }
  std::size_t bytes() const { return numel() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  void* raw() const { return data_; }
  std::span<std::byte> raw_bytes() const { return {static_cast<std::byte*>(data_), bytes()}; }

  /// Returns the address of the elements. Throws unless T matches dtype().
  template <class T>
  T* data() const {
    require(dtype_ == dtype_of<T>(), "a tensor of ", name_of(dtype_), " was read as ", name_of(dtype_of<T>()));
    return static_cast<T*>(data_);
  }
  /// Returns the same elements in a different shape of equal size.
  Tensor view(Shape shape) const;
  /// Returns rows [begin, begin + count) along the first axis.
  Tensor rows(std::int64_t begin, std::int64_t count) const;
  /// Returns elements [begin, begin + count) as a 1-D tensor.
  Tensor flat(std::int64_t begin, std::int64_t count) const;
  /// Returns the product of all sizes except the last: the number of rows for operators that work on the last axis.
  std::int64_t row_count() const { return numel() / std::max<std::int64_t>(1, shape_[-1]); }

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_;
};

/// Throws "what: expected float32 (2, 3), got ..." unless dtype and shape match.
void expect_tensor(const char* what, const Tensor& tensor, DType dtype, const Shape& shape);

/// Whether to overwrite a gradient or add to it. In a GEMM, this is a beta of 0 or 1.
enum class GradMode { overwrite, accumulate };

/// A gradient to write or add to. If none is wanted, this is default-constructed.
struct Grad {
  Tensor tensor;
  GradMode mode = GradMode::overwrite;
  bool wanted() const { return tensor.exists(); }
};

}  // namespace mtl
