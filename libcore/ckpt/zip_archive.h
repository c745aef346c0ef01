// Reads zip and zip64 archives as torch.save() writes them: entries are not compressed, and are read directly from
// mapped memory.
//
// The reader accepts an archive only if all of the following hold:
//   - The archive does not span several disks.
//   - The central directory ends where the end record begins.
//   - No entry is compressed or encrypted.
//   - Every local header has the same name as the corresponding entry in the directory.
//   - No two entries overlap or have the same name.
//   - No name is empty or absolute, or contains a backslash, a NUL, an empty part or a part "." or "..".
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

/// True if the bytes begin with a zip entry.
bool is_zip_archive(std::span<const std::byte> bytes);

class ZipArchive {
 public:
  /// Checks the whole structure; does not read the data of the entries. `bytes` must outlive this object.
  explicit ZipArchive(std::span<const std::byte> bytes);

  /// Returns the entries in the order of the central directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Returns nullptr if the archive has no entry of this name.
  const ZipEntry* find(const std::string& name) const;

 private:
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t> index_;
};

/// Throws Error(bad_data) unless the data of the entry has the recorded CRC-32. If the recorded CRC-32 is 0, accepts
/// any data, because torch.save() can omit the CRC-32.
void check_crc(const ZipEntry& entry);

}  // namespace mtl
