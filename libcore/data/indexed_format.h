// Constants of the .idx format, shared by all code that reads or writes token files (data/indexed_dataset.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/str.h"
#include "data/indexed_dataset.h"

namespace mtl {

inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
/// The magic of an older format, for "lazy" and "cached" data sets.
inline constexpr std::string_view kOldIndexMagic{"TNTIDX\0\0", 8};
inline constexpr std::uint64_t kIndexVersion = 1;

// Byte offsets of header fields.
inline constexpr std::size_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26, kHeaderBytes = 34;

/// Returns the header of an .idx.
inline std::string index_header(DataType type, std::int64_t sequences, std::int64_t documents) {
  return cat(kIndexMagic, to_little_endian(kIndexVersion, 8), static_cast<char>(type), to_little_endian(sequences, 8),
             to_little_endian(documents + 1, 8));
}

/// Loads a number from `at`, which may be unaligned.
template <class T>
T load_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace mtl
