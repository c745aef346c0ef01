#include "base/utf8.h"

#include <utility>

namespace mtl {

namespace {

/// Appends the complete characters in `bytes` to `out`. Returns the number of bytes in an incomplete one at the end.
std::size_t append_complete(std::string& out, std::string_view bytes) {
  const char* at = bytes.data();
  const char* end = at + bytes.size();
  while (at < end) {
    Utf8Char next = next_utf8(at, end);
    if (next.cut_short) return end - at;
    if (next.valid) {
      out.append(at, next.length);
    } else {
      out += kReplacementCharacter;
    }
    at += next.length;
  }
  return 0;
}

}  // namespace

std::string decode_lossy(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (append_complete(out, bytes) > 0) out += kReplacementCharacter;
  return out;
}

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::size_t left = append_complete(out, held_);
  held_.erase(0, held_.size() - left);
  return out;
}

std::string Utf8Stream::finish() { return decode_lossy(std::exchange(held_, {})); }

}  // namespace mtl
