#include "base/utf8.h"

#include <utility>

#include "base/error.h"

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

constexpr OtherEncoding kUtf32{"UTF-32 text", "iconv -f UTF-32 -t UTF-8"};
constexpr OtherEncoding kUtf16{"UTF-16 text", "iconv -f UTF-16 -t UTF-8"};
constexpr OtherEncoding kUtf16Le{"UTF-16 text", "iconv -f UTF-16LE -t UTF-8"};
constexpr OtherEncoding kUtf16Be{"UTF-16 text", "iconv -f UTF-16BE -t UTF-8"};
constexpr OtherEncoding kMarked{"text with a byte order mark (BOM)", "tail -c +4"};

}  // namespace

const OtherEncoding* find_other_encoding(std::string_view head) {
  if (starts_with(head, {"\xFF\xFE\0\0", 4}) || starts_with(head, {"\0\0\xFE\xFF", 4})) return &kUtf32;
  if (starts_with(head, "\xFF\xFE") || starts_with(head, "\xFE\xFF")) return &kUtf16;
  if (starts_with(head, "\xEF\xBB\xBF")) return &kMarked;
  // Without a byte order mark: JSON and most other text begins with ASCII.
  if (head.size() < 4) return nullptr;
  if (head[0] != 0 && head[1] == 0 && head[2] != 0 && head[3] == 0) return &kUtf16Le;
  if (head[0] == 0 && head[1] != 0 && head[2] == 0 && head[3] != 0) return &kUtf16Be;
  return nullptr;
}

void refuse_other_encoding(const std::string& path, std::string_view text) {
  if (const OtherEncoding* other = find_other_encoding(text))
    fail_at(Exit::bad_data, path, "this is ", other->what, ", not plain UTF-8; convert it: ", other->filter, " FILE");
}

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
