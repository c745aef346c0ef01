// Lookup in lists and maps, with a pointer as the result.
#pragma once

#include <algorithm>

namespace mtl {

/// Returns the first item of a list for which `projection`, a member pointer or function, gives `value`, or nullptr.
template <class List, class Value, class Projection>
auto* find_or_null(List&& list, const Value& value, const Projection& projection) {
  const auto found = std::ranges::find(list, value, projection);
  return found == std::ranges::end(list) ? nullptr : &*found;
}

/// Returns the value of a key in a map, or nullptr.
template <class Map, class Key>
auto* find_or_null(Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace mtl
