// Releases pages that were read through a memory map. Released pages stay in the page cache, but no longer count as
// memory of this process. Without release, the process would appear to use as much memory as the total size of its
// mapped files.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/files.h"
#include "base/hash.h"

namespace mtl {

/// Number of bytes to read through a memory map before the pages are released.
inline constexpr std::uint64_t kMappedPages = 32 << 20;

/// Releases all pages of the mapping. The content can still be read at any time.
inline void release_pages(const MappedFile& file) {
  const auto bytes = file.bytes();
  // A failure is harmless, because the call is only advice.
  if (!bytes.empty()) ::madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_DONTNEED);
}

/// Tells the operating system whether reads will be in random order (true), for which read-ahead does not help, or in
/// file order (false).
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
