// The header of a NumPy array file (.npy), written in format version 1.0, and read in versions 1.0, 2.0 and 3.0.
//
// It contains the magic "\x93NUMPY", two version bytes, the text length (u16, or u32 from version 2.0 on), and the
// text: a Python dictionary with the keys descr, fortran_order and shape, padded with spaces and a newline so that the
// header size is a multiple of 64 bytes. The array elements follow. We do not trust the file: the text is parsed as
// data, not evaluated, and its length is limited like numpy.load's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/indexed_dataset.h"
#include "data/integer_type.h"

namespace mtl {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// Returns the header for a one-dimensional, little-endian array with `size` elements.
std::string npy_header(DataType type, std::int64_t size);
std::string npy_header(IntegerType type, std::int64_t size);

/// What the header of a flat file says: of a one-dimensional, little-endian array of integers.
struct FlatHeader {
  IntegerType type{};
  std::int64_t size = 0;    // elements
  std::uint64_t bytes = 0;  // of the header; the elements follow
};
/// How many first bytes of a file read_npy_header() may need.
inline constexpr std::size_t kNpyHeadBytes = 12 + 10'000;
/// Reads the header of a file that begins with `head`: its first kNpyHeadBytes bytes, or the entire file. Throws
/// Error(bad_data) if the header is not valid, or describes another array than one of integers.
FlatHeader read_npy_header(std::string_view head);

}  // namespace mtl
