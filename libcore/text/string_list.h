// Keeps many short strings in one block of memory. A vocabulary has about a hundred thousand strings, and is read
// whenever a program starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace mtl {

/// An iterator for a list whose operator[] returns by value.
template <class List>
class IndexIterator {
 public:
  IndexIterator(const List& list, std::size_t at) : list_(list), at_(at) {}
  auto operator*() const { return list_[at_]; }
  IndexIterator& operator++() {
    ++at_;
    return *this;
  }
  bool operator==(const IndexIterator& other) const { return at_ == other.at_; }

 private:
  const List& list_;
  std::size_t at_;
};

/// Appends to a list's text. Throws Error(bad_data) if it would exceed 4 GiB, because offsets have 32 bits.
inline void append_limited(std::string& all, std::string_view text) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max() - all.size()) [[unlikely]]
    fail(Exit::bad_data, "the vocabulary has more than 4 GiB");
  all += text;
}

/// A list of strings, accessed by number. A view is valid until the list changes. A string to be added must not be a
/// view of the list.
class StringList {
 public:
  std::size_t size() const { return ranges_.size(); }
  std::string_view operator[](std::size_t i) const { return {text_.data() + ranges_[i].begin, ranges_[i].size}; }
  /// Memory may be read from the start of a string up to this address.
  const char* readable_end() const { return text_.data() + text_.size(); }
  IndexIterator<StringList> begin() const { return {*this, 0}; }
  IndexIterator<StringList> end() const { return {*this, size()}; }

  void reserve(std::size_t strings, std::size_t bytes) {
    ranges_.reserve(strings);
    text_.reserve(bytes);
  }
  void push_back(std::string_view text) {
    resize(size() + 1);
    set(size() - 1, text);
  }
  /// New strings are empty.
  void resize(std::size_t strings) { ranges_.resize(strings); }
  void set(std::size_t i, std::string_view text) {
    const auto begin = static_cast<std::uint32_t>(text_.size());
    append_limited(text_, text);
    ranges_[i] = {begin, static_cast<std::uint32_t>(text.size())};
  }
  /// Returns the number of the first string equal to `text`, or size().
  std::size_t find(std::string_view text) const {
    std::size_t i = 0;
    while (i < size() && (ranges_[i].size != text.size() || (*this)[i] != text)) ++i;
    return i;
  }

 private:
  /// The bytes of text_ that are a string.
  struct Range {
    std::uint32_t begin = 0, size = 0;
  };
  std::string text_;
  std::vector<Range> ranges_;
};

}  // namespace mtl
