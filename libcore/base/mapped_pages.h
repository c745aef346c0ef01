// Releases pages that were read through a memory map. They stay in the page cache, but no longer count as memory of
// this process, which would otherwise seem as large as its files.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/files.h"
#include "base/hash.h"

namespace mtl {

/// Bytes to read through a map before their pages are released.
inline constexpr std::uint64_t kMappedPages = 32 << 20;

/// Releases all pages of the mapping; the content can be read again at any time.
inline void release_pages(const MappedFile& file) {
  const auto bytes = file.bytes();
  // Only advice: a failure is harmless.
  if (!bytes.empty()) ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_DONTNEED);
}

/// Advises the system that reads will be in random order, so that read-ahead does not help, or in file order.
inline void expect_scattered_reads(const MappedFile& file, bool are_scattered) {
  const auto bytes = file.bytes();
  if (bytes.empty()) return;
  ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), are_scattered ? MADV_RANDOM : MADV_NORMAL);
}

/// Returns the XXH3 of a mapped file, computed in bounded memory.
inline std::uint64_t hash_mapped(const MappedFile& file) {
  Hasher hasher;
  for (auto remaining = file.bytes(); !remaining.empty();) {
    const auto part = remaining.first(std::min<std::size_t>(remaining.size(), kMappedPages));
    hasher.update(part.data(), part.size());
    remaining = remaining.subspan(part.size());
    release_pages(file);
  }
  return hasher.digest();
}

}  // namespace mtl
