// Colors for what pipeline stages do.
#pragma once

#include <array>
#include <string>

namespace mtl {

using Rgb = std::array<int, 3>;

/// Colors for the first chunk's actions.
inline constexpr Rgb kForward = {0x00, 0x72, 0xB2}, kBackward = {0x00, 0x9E, 0x73}, kWeight = {0xD5, 0x5E, 0x00};

/// Returns a chunk's color, such as "#0072b2": `strong` for the first, then paler up to the last.
std::string shade(const Rgb& strong, int chunk, int chunks);
/// True if text on a chunk's color should be white.
inline bool is_dark(int chunk, int chunks) { return chunks == 1 || chunk < (chunks + 1) / 2; }

}  // namespace mtl
