// The files that --input names.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Each word itself, or the files it matches as a pattern when there is no such file; "-" is standard input.
/// Throws Error(io) that lists all that is missing, is a folder, or cannot be read.
std::vector<std::string> find_inputs(const std::vector<std::string>& words);

}  // namespace mtl
