// Returns random text that mixes scripts, blanks, contractions, digits, combining marks and rare Unicode planes.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_cursor.h"

namespace mtl {

using CodeRange = std::pair<std::uint32_t, std::uint32_t>;

/// Returns up to about `max_bytes` bytes. Each step adds either one of `parts`, or up to four characters from one of
/// `ranges`.
inline std::string random_text(std::mt19937& random, std::size_t max_bytes, std::span<const std::string_view> parts,
                               std::span<const CodeRange> ranges) {
  std::string out;
  std::size_t length = random() % max_bytes;
  while (out.size() < length) {
    if (random() % 3 == 0) {
      out += parts[random() % parts.size()];
      continue;
    }
    auto [first, last] = ranges[random() % ranges.size()];
    for (std::size_t run = random() % 5; run > 0; --run)
      append_utf8(out, first + static_cast<std::uint32_t>(random() % (last - first + 1)));
  }
  return out;
}

inline std::string random_text(std::mt19937& random, std::size_t max_bytes = 60) {
  constexpr std::string_view kParts[] = {
      "'s",       "'ll",          "'RE",      " ",   "  ",  "\n",  "\t",   "\r\n", " \n ", "'\xC5\xBF", "\xE2\x84\xAA",
      "\xC2\xA0", "\xE3\x80\x80", "\xCC\x81", "the", " of", "ing", "HTTP", "//",   "1234", "/\n",       "\xEF\xBF\xBD"};
  constexpr CodeRange kRanges[] = {
      {0, 0x7F},          {'a', 'z'},         {'A', 'Z'},        {'0', '9'},       {0x80, 0x24F},    {0x300, 0x36F},
      {0x370, 0x52F},     {0x5D0, 0x6FF},     {0x900, 0x97F},    {0x1C5, 0x1F2},   {0x1100, 0x11FF}, {0x2000, 0x206F},
      {0x2150, 0x218F},   {0x24B6, 0x24E9},   {0x3041, 0x30FF},  {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xF900, 0xFAFF},
      {0x1D400, 0x1D7FF}, {0x1F300, 0x1F9FF}, {0xE000, 0x10FFFF}};
  return random_text(random, max_bytes, kParts, kRanges);
}

}  // namespace mtl
