// Text in a buffer that grows without being zeroed, and that can be read slightly beyond the end of the text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace mtl {

/// SIMD parsers may read the kPadding bytes after the text, whose contents are undefined.
class PaddedText {
 public:
  static constexpr std::size_t kPadding = 64;

  PaddedText() = default;
  PaddedText(std::string_view text) { append(text); }
  PaddedText(PaddedText&& other) noexcept { *this = std::move(other); }
  PaddedText& operator=(PaddedText&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  operator std::string_view() const { return view(); }
  std::string_view view() const { return {data_.get(), size_}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  /// Returns an address after the text at which up to `bytes` bytes can be written. add() then makes them part of the
  /// text.
  char* room(std::size_t bytes) {
    if (size_ + bytes > capacity_) grow(std::max(size_ + bytes, 2 * size_));
    return data_.get() + size_;
  }
  void add(std::size_t bytes) { size_ += bytes; }
  void append(std::string_view text) {
    if (text.empty()) return;
    std::memcpy(room(text.size()), text.data(), text.size());
    add(text.size());
  }
  /// Keeps the first `bytes` bytes.
  void truncate(std::size_t bytes) { size_ = bytes; }

 private:
  void grow(std::size_t capacity) {
    auto data = std::make_unique_for_overwrite<char[]>(capacity + kPadding);
    if (size_ > 0) std::memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace mtl
