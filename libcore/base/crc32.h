// CRC-32 of zip and gzip (IEEE 802.3, reflected polynomial EDB88320).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mtl {

/// Returns the CRC of `bytes` appended to bytes whose CRC is `before`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace mtl
