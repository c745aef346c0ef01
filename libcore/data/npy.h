// The header of a NumPy array file (.npy, format version 1.0): the magic "\x93NUMPY", version 1 0, the length of the
// text as u16, and the text, a Python dictionary padded with blanks and a newline to a multiple of 64 bytes. The items
// follow as they lie in memory.
#pragma once

#include <cstdint>
#include <string>

#include "data/indexed_dataset.h"

namespace mtl {

/// The header of a one-dimensional, little-endian array.
std::string npy_header(DataType type, std::int64_t size);

}  // namespace mtl
