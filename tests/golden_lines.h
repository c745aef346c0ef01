// Reads a golden file of JSON lines.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/str.h"

namespace mtl {

/// Returns the nonempty lines. Throws Error if there are none.
inline std::vector<Json> golden_lines(const std::string& path) {
  std::vector<Json> out;
  for (const std::string& line : split(read_file(path), '\n')) {
    if (!line.empty()) out.push_back(Json::parse(line));
  }
  require(!out.empty(), path, ": no lines");
  return out;
}

}  // namespace mtl
