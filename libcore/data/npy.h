// The header of a NumPy array file (.npy, format version 1.0). It contains the magic "\x93NUMPY", the version bytes 1
// and 0, the text length as u16, and the text. The text is a Python dictionary, padded with spaces and a newline so
// that the header size is a multiple of 64 bytes. The array elements follow in little-endian binary form.
#pragma once

#include <cstdint>
#include <string>

#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the header for a one-dimensional, little-endian array with `size` elements.
std::string npy_header(DataType type, std::int64_t size);

}  // namespace mtl
