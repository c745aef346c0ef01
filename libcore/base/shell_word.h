// Words of shell commands in messages and scripts.
#pragma once

#include <string>

namespace mtl {

/// Returns a word as a POSIX shell reads it: as it is, or in quotes if it has characters that mean something.
std::string shell_word(const std::string& word);

}  // namespace mtl
