// Large arrays for random access, in huge pages if the system provides them, so that most accesses hit the TLB.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace mtl {

/// Page-aligned anonymous memory, initially zero. Pages take no physical memory until first touched.
class Pages {
 public:
  Pages() = default;
  /// Throws Error(failure) "out of memory: cannot allocate 1.9 GiB for WHAT" (WHAT is `what`) if the allocation is
  /// refused.
  Pages(std::size_t bytes, std::string_view what);
  void* data() const { return data_.get(); }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Unmap> data_;
};

/// A fixed-size array of trivial elements, initially zero.
template <class T>
class BigArray {
 public:
  BigArray() = default;
  /// `what` describes the array in Pages' error message.
  BigArray(std::size_t size, std::string_view what) : pages_(size * sizeof(T), what), size_(size) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return static_cast<T*>(pages_.data()); }
  const T* data() const { return static_cast<const T*>(pages_.data()); }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  Pages pages_;
  std::size_t size_ = 0;
};

}  // namespace mtl
