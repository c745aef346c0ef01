// Lookup in tables indexed by an enum, such as those of its names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>

namespace mtl {

/// Returns the index for `value` in a table with one entry per enumerator, in declaration order.
template <class Enum>
requires std::is_enum_v<Enum>
constexpr std::size_t enum_index(Enum value) { return static_cast<std::size_t>(value); }

/// Returns the enumerator called `name`, if any. `names` has one entry per enumerator, in declaration order.
template <class Enum, class Names>
std::optional<Enum> enum_named(const Names& names, std::string_view name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  return found == std::end(names) ? std::nullopt : std::optional(static_cast<Enum>(found - std::begin(names)));
}

}  // namespace mtl
