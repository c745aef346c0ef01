// Releases pages read through a memory map. They stay in the page cache but no longer count as this process's memory,
// which would otherwise seem as large as all its mapped files together.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/files.h"
#include "base/hash.h"

namespace mtl {

/// How many bytes to read through a memory map before releasing the pages.
inline constexpr std::uint64_t kMappedPages = 32 << 20;

/// Releases all pages of a MappedFile::bytes(), which stay readable.
inline void release_pages(std::span<const std::byte> mapped) {
  // The call is only advice, so a failure is harmless.
  if (!mapped.empty()) ::madvise(const_cast<std::byte*>(mapped.data()), mapped.size(), MADV_DONTNEED);
}

inline void release_pages(const MappedFile& file) { release_pages(file.bytes()); }

/// Tells the operating system to expect reads in random order (true), where read-ahead does not help, or in file order
/// (false).
inline void expect_scattered_reads(const MappedFile& file, bool are_scattered) {
  const auto bytes = file.bytes();
  if (bytes.empty()) return;
  ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), are_scattered ? MADV_RANDOM : MADV_NORMAL);
}

/// Returns the XXH3 of a MappedFile::bytes(), in bounded memory.
inline std::uint64_t hash_mapped(std::span<const std::byte> mapped) {
  Hasher hasher;
  for (auto remaining = mapped; !remaining.empty();) {
    const auto part = remaining.first(std::min<std::size_t>(remaining.size(), kMappedPages));
    hasher.update(part.data(), part.size());
    remaining = remaining.subspan(part.size());
    release_pages(mapped);
  }
  return hasher.digest();
}

inline std::uint64_t hash_mapped(const MappedFile& file) { return hash_mapped(file.bytes()); }

}  // namespace mtl
