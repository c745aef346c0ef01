// The header of a NumPy array file (.npy, format version 1.0). It holds the magic "\x93NUMPY", the version bytes 1 and
// 0, the length of the text as u16, and the text. The text is a Python dictionary, followed by spaces and a newline
// that pad the header to a multiple of 64 bytes. The array elements follow the header in little-endian binary form.
#pragma once

#include <cstdint>
#include <string>

#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the header of a one-dimensional, little-endian array of `size` elements.
std::string npy_header(DataType type, std::int64_t size);

}  // namespace mtl
