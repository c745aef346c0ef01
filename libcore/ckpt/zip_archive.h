// Reads zip and zip64 archives as written by torch.save(): entries are not compressed, and we read them directly from
// mapped memory.
//
// The reader accepts an archive only if all of the following hold:
// - The archive does not span multiple disks.
// - The central directory ends where the end record starts.
// - No entry is compressed or encrypted.
// - Every local header has the same name as the corresponding entry in the directory.
// - No two entries overlap or have the same name.
// - No name is empty or absolute, or contains a backslash, a NUL, an empty part or a part "." or "..".
//
// Otherwise throws Error(bad_data); the message does not include the file name.
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

/// True if the bytes start with a zip entry.
bool is_zip_archive(std::span<const std::byte> bytes);

class ZipArchive {
 public:
  /// Checks the entire structure, but does not read the entries' data. The caller must keep `bytes` alive.
  explicit ZipArchive(std::span<const std::byte> bytes);

  /// Returns the entries in central directory order.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Returns nullptr if the archive has no entry with this name.
  const ZipEntry* find(const std::string& name) const;

 private:
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t> index_;
};

/// Throws Error(bad_data) unless the entry's data has the recorded CRC-32. If that is 0, accepts any data, because
/// torch.save() can omit it.
void check_crc(const ZipEntry& entry);

}  // namespace mtl
