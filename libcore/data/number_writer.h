// Writes an .idx file's numbers.
#pragma once

#include <cstddef>
#include <string>

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
  void flush() {
    out_.write(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kBuffer = 1 << 20;
  OutputFile& out_;
  std::string buffer_;
};

}  // namespace mtl
