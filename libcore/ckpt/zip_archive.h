// Reads zip and zip64 archives as torch.save writes them: entries are not compressed, and are read in mapped memory.
//
// The reader accepts an archive only if: it does not span several disks; its central directory ends where the end
// record begins; no entry is compressed or encrypted; every local header has the same name as the directory; no two
// entries overlap or have the same name; and no name is empty or absolute, or contains a backslash, a NUL, an empty
// part or a part "." or "..". Throws Error(bad_data) that does not name the file.
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

/// True when the bytes begin with a zip entry.
bool is_zip_archive(std::span<const std::byte> bytes);

class ZipArchive {
 public:
  /// Checks the whole structure; does not touch the entries' data. `bytes` must outlive this object.
  explicit ZipArchive(std::span<const std::byte> bytes);

  /// Returns the entries in the order of the central directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Returns nullptr if the archive has no entry of this name.
  const ZipEntry* find(const std::string& name) const;

 private:
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t> index_;
};

/// Throws Error(bad_data) unless the data has the recorded CRC-32. Accepts any data if that is 0: torch can omit the
/// CRC-32.
void check_crc(const ZipEntry& entry);

}  // namespace mtl
