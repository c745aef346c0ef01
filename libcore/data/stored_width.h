// Finds out from the bytes of token ids how wide the integers are, for files that do not say it.
//
// The bytes of a W-byte integer differ in what they hold: the low ones take all values, the high ones few, or only 0.
// So the values of a file's bytes follow a pattern with period W, however the ids are distributed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace mtl {

/// Returns the bytes of each integer (1, 2, 4 or 8) if these bytes clearly have another period than `bytes`; nullopt if
/// they may have it, or are too few to tell.
std::optional<int> other_stored_width(std::span<const std::byte> ids, int bytes);

}  // namespace mtl
