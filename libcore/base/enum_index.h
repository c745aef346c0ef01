// Lookup in tables indexed by an enum.
#pragma once

#include <cstddef>
#include <type_traits>

namespace mtl {

/// Returns the index for `value` in a table with one entry per enumerator, in declaration order.
template <class Enum>
requires std::is_enum_v<Enum>
constexpr std::size_t enum_index(Enum value) { return static_cast<std::size_t>(value); }

}  // namespace mtl
