#include "data/npy.h"

#include "base/str.h"

namespace mtl {
namespace {

/// Returns NumPy's name for a type, such as "<u2": byte order, kind, number of bytes. For one-byte types, NumPy writes
/// | instead of a byte order.
std::string npy_type(DataType type) {
  const char kind = name_of(type).front();
  return cat(item_size(type) == 1 ? '|' : '<', kind, item_size(type));
}

}  // namespace

std::string npy_header(DataType type, std::int64_t size) {
  constexpr std::size_t kFixed = 10, kAlignment = 64;
  std::string text = cat("{'descr': '", npy_type(type), "', 'fortran_order': False, 'shape': (", size, ",), }");
  const std::size_t unpadded = kFixed + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  return cat(out, to_little_endian(text.size(), 2), text);
}

}  // namespace mtl
