// Large arrays: zero-filled, exactly as long as requested, and aligned for huge pages.
#include "base/big_array.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

namespace mtl {
namespace {

TEST_CASE(
    "BigArray: is zeroed and writable, aligned for huge pages if it is large enough, and keeps its data when moved") {
  for (std::size_t size : {1, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (9 << 20) + 12345}) {
    CAPTURE(size);
    BigArray<std::uint8_t> array(size, "a test");
    REQUIRE(array.size() == size);
    CHECK(std::count(array.span().begin(), array.span().end(), 0) == static_cast<std::ptrdiff_t>(size));
    std::fill(array.span().begin(), array.span().end(), std::uint8_t{7});
    if (size >= 2 << 20) CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % (2 << 20) == 0);
    const BigArray<std::uint8_t> moved = std::move(array);
    CHECK(moved[size - 1] == 7);
  }
  CHECK(BigArray<int>(0, "nothing").empty());
}

}  // namespace
}  // namespace mtl
