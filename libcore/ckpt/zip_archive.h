// A zip archive as torch.save writes it: stored entries, mapped, never unpacked. Also zip64.
//
// The reader takes an archive only if: it is one disk; its central directory ends where the end record begins; no entry
// is compressed or encrypted; every local header agrees with the directory in its name; no two entries overlap or have
// one name; and no name is absolute, empty, has a backslash or NUL, or a part "." or "..". Errors are Error(bad_data)
// without the file's name.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mtl {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> data;
  std::uint32_t crc32 = 0;
};

/// True when the bytes begin as a zip archive does.
bool is_zip_archive(std::span<const std::byte> bytes);

class ZipArchive {
 public:
  /// Checks the whole structure; data is not touched. `bytes` must outlive this object.
  explicit ZipArchive(std::span<const std::byte> bytes);

  /// In the order of the central directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// nullptr without it.
  const ZipEntry* find(const std::string& name) const;

 private:
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t> index_;
};

/// Throws Error(bad_data) unless the data have the CRC-32 that the archive records. A recorded 0 counts as none: torch
/// can leave it out.
void check_crc(const ZipEntry& entry);

}  // namespace mtl
