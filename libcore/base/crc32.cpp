#include "base/crc32.h"

#include <array>
#include <cstring>

namespace mtl {

namespace {

constexpr int kLanes = 8;  // bytes per iteration; table k holds the CRCs of each byte followed by k zero bytes
using CrcTables = std::array<std::array<std::uint32_t, 256>, kLanes>;

constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
    tables[0][byte] = crc;
  }
  for (int lane = 1; lane < kLanes; ++lane) {
    for (int byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[lane - 1][byte];
      tables[lane][byte] = crc >> 8 ^ tables[0][crc & 0xFF];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = make_crc_tables();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kLanes; at += kLanes, left -= kLanes) {
    std::uint32_t low, high;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = 0;
    for (int i = 0; i < 4; ++i) {
      crc ^= kCrcTables[7 - i][low >> (8 * i) & 0xFF];
      crc ^= kCrcTables[3 - i][high >> (8 * i) & 0xFF];
    }
  }
  for (; left > 0; ++at, --left) crc = crc >> 8 ^ kCrcTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xFF];
  return ~crc;
}

}  // namespace mtl
