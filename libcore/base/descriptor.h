// Owns a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace mtl {

/// A descriptor that the destructor closes. Below 0: none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  operator int() const { return number_; }
  /// Returns the descriptor, which the caller must then close.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace mtl
