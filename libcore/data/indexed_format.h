// The constants of the .idx format, shared by its writer and its reader (data/indexed_dataset.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mtl {

inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
/// The format before it, of "lazy" and "cached" datasets.
inline constexpr std::string_view kOldIndexMagic{"TNTIDX\0\0", 8};
inline constexpr std::uint64_t kIndexVersion = 1;

// Where the fields of the header begin, in bytes.
inline constexpr std::size_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26, kHeaderBytes = 34;

}  // namespace mtl
