// The CRC-32 used by zip and gzip (IEEE 802.3, reflected polynomial EDB88320).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mtl {

/// Returns the CRC of a stream that ends in `bytes`. `before` is the CRC of everything that precedes them.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace mtl
