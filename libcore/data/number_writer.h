// Writes an .idx file's numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/files.h"

namespace mtl {

/// Writes numbers to a file through a buffer. flush() must be called after the last one.
class NumberWriter {
 public:
  explicit NumberWriter(OutputFile& out) : out_(out) {}
  template <class T>
  void add(T value) {
    buffer_.append(reinterpret_cast<const char*>(&value), sizeof value);
    if (buffer_.size() >= kBuffer) flush();
  }
  /// Writes the sum of the numbers of earlier calls: where an element of this size begins.
  void add_sum(std::int64_t size) { add(std::exchange(sum_, sum_ + size)); }
  void flush() {
    out_.write(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kBuffer = 1 << 20;
  OutputFile& out_;
  std::string buffer_;
  std::int64_t sum_ = 0;
};

}  // namespace mtl
