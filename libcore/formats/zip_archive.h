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

/// The CRC-32 of the first bytes of an entry's data.
struct CrcProgress {
  std::size_t bytes = 0;
  std::uint32_t crc32 = 0;
};

struct ZipEntry {
  std::string name;
  std::span<const std::byte> data;
  std::uint32_t crc32 = 0;
  mutable CrcProgress verified = {};  // what check_crc() has read so far
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
/// torch.save() can omit it. Reads only what earlier calls have not read.
void check_crc(const ZipEntry& entry);
/// Reads the first `bytes` bytes of the entry's data for check_crc(), as far as earlier calls have not read them, so
/// that whoever copies them next finds them in the cache. Throws as check_crc() does once all data is read.
void check_crc_until(const ZipEntry& entry, std::size_t bytes);

}  // namespace mtl
