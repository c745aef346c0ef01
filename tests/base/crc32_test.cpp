// CRC-32: matches the specification's check value, and does not depend on how the input is split.
#include "base/crc32.h"

#include <doctest/doctest.h>

#include <string>

using namespace mtl;

TEST_CASE("crc32: equals the check value, and the CRC of two parts is that of the whole") {
  const std::string text = "123456789";
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  CHECK(crc32(bytes) == 0xCBF43926);
  CHECK(crc32({}) == 0);
  std::string longer;
  for (int i = 0; i < 100; ++i) longer += static_cast<char>(i * 37);
  const std::span<const std::byte> all = std::as_bytes(std::span(longer));
  for (std::size_t cut = 0; cut <= all.size(); ++cut)
    CHECK(crc32(all.subspan(cut), crc32(all.first(cut))) == crc32(all));
}
