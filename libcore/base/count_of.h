// A number with its noun.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/str.h"

namespace mtl {

/// Returns "1 document", "2,000 documents", "0 documents". The plural is the noun with an s.
inline std::string count_of(std::int64_t count, std::string_view noun) {
  return cat(with_commas(count), " ", noun, count == 1 ? "" : "s");
}

}  // namespace mtl
