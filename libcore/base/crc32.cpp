#include "base/crc32.h"

#include <libdeflate.h>

namespace mtl {

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  // Of no bytes, libdeflate returns the CRC that a stream begins with.
  return bytes.empty() ? before : libdeflate_crc32(before, bytes.data(), bytes.size());
}

}  // namespace mtl
