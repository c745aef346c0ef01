#include "formats/zip_archive.h"

#include <algorithm>
#include <string_view>

#include "base/crc32.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/str.h"
#include "formats/tensor_file.h"

namespace mtl {

namespace {

constexpr std::string_view kLocalHeader = "PK\3\4", kDirectoryEntry = "PK\1\2", kEndRecord = "PK\5\6",
                           kEndRecord64 = "PK\6\6", kEndLocator64 = "PK\6\7";
constexpr std::size_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kEndRecordBytes = 22, kEndRecord64Bytes = 56,
                      kEndLocator64Bytes = 20;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // marks a number that is in a zip64 field instead

template <class... Parts>
[[noreturn]] void refuse_zip(const Parts&... parts) {
  fail(Exit::bad_data, "zip archive: ", parts...);
}

template <class... Parts>
[[noreturn]] void refuse_damaged_zip(const Parts&... parts) {
  refuse_zip(parts..., kDamagedRemedy);
}

/// Reads little-endian numbers and text at given offsets. Rejects offsets beyond the end of the file.
class ZipBytes {
 public:
  explicit ZipBytes(std::span<const std::byte> bytes)
      : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  std::uint64_t size() const { return text_.size(); }
  std::string_view text(std::uint64_t at, std::uint64_t bytes) const {
    if (at > size() || bytes > size() - at)
      refuse_damaged_zip("the record of ", bytes, " bytes at offset ", at, " reaches beyond the end of the file");
    return text_.substr(at, bytes);
  }
  std::uint64_t number(std::uint64_t at, int bytes) const { return from_little_endian(text(at, bytes)); }
  bool has(std::uint64_t at, std::string_view magic) const { return text_.substr(std::min(at, size()), 4) == magic; }

 private:
  std::string_view text_;
};

struct Directory {
  std::uint64_t offset, bytes, entries;
};

/// Returns the offset of the end record, which is the last record whose comment ends at the end of the file.
std::uint64_t find_end_record(const ZipBytes& file) {
  constexpr std::uint64_t kLongestComment = 0xFFFF;
  if (file.size() >= kEndRecordBytes) {
    const std::uint64_t last = file.size() - kEndRecordBytes, first = last - std::min(last, kLongestComment);
    for (std::uint64_t at = last + 1; at-- > first;) {
      if (file.has(at, kEndRecord) && at + kEndRecordBytes + file.number(at + 20, 2) == file.size()) return at;
    }
  }
  refuse_damaged_zip("the end record is missing, so the file is incomplete");
}

Directory find_directory(const ZipBytes& file) {
  const std::uint64_t end = find_end_record(file);
  if (file.number(end + 4, 2) != 0 || file.number(end + 6, 2) != 0)
    refuse_zip("the file is one part of several; join the parts into one file");
  Directory directory{
      .offset = file.number(end + 16, 4), .bytes = file.number(end + 12, 4), .entries = file.number(end + 10, 2)};
  std::uint64_t limit = end;
  if (end >= kEndLocator64Bytes && file.has(end - kEndLocator64Bytes, kEndLocator64)) {
    const std::uint64_t end64 = file.number(end - kEndLocator64Bytes + 8, 8);
    if (end64 > end || end - end64 < kEndRecord64Bytes + kEndLocator64Bytes || !file.has(end64, kEndRecord64))
      refuse_damaged_zip("the zip64 end record is not at offset ", end64);
    directory = {.offset = file.number(end64 + 48, 8),
                 .bytes = file.number(end64 + 40, 8),
                 .entries = file.number(end64 + 32, 8)};
    limit = end64;
  }
  if (directory.offset > limit || directory.bytes != limit - directory.offset)
    refuse_damaged_zip("the directory of ", directory.bytes, " bytes at offset ", directory.offset,
                       " does not end at the end record, which is at ", limit);
  if (directory.entries > directory.bytes / kDirectoryEntryBytes)
    refuse_damaged_zip("the directory of ", directory.bytes, " bytes is too short for ", directory.entries, " entries");
  return directory;
}

void check_entry_name(const std::string& name) {
  bool is_refused = name.empty() || name.find_first_of(std::string_view("\\\0", 2)) != std::string::npos;
  for (const std::string& part : split(name, '/'))
    is_refused = is_refused || part.empty() || part == "." || part == "..";
  if (is_refused)
    refuse_zip("an entry is named '", printable_text(name.substr(0, 200)),
               "', which is not a path inside the archive; torch.save did not write this file, so do not use it");
}

struct EntrySizes {
  std::uint64_t stored, unpacked, offset;
};

/// Returns an entry's sizes and offset. Numbers that do not fit in 32 bits are in the entry's zip64 field, in the order
/// unpacked, stored, offset.
EntrySizes read_sizes(const ZipBytes& file, std::uint64_t at, std::uint64_t extra, std::uint64_t extra_bytes) {
  EntrySizes sizes{
      .stored = file.number(at + 20, 4), .unpacked = file.number(at + 24, 4), .offset = file.number(at + 42, 4)};
  for (std::uint64_t field = extra, end = extra + extra_bytes; end - field >= 4;) {
    const std::uint64_t id = file.number(field, 2), bytes = file.number(field + 2, 2);
    field += 4;
    if (bytes > end - field) refuse_damaged_zip("the extra field at offset ", field, " is longer than its entry");
    if (id == 1) {
      std::uint64_t next = field;
      for (std::uint64_t* size : {&sizes.unpacked, &sizes.stored, &sizes.offset}) {
        if (*size != kIn64) continue;
        if (field + bytes - next < 8) refuse_damaged_zip("the zip64 field at offset ", field, " is too short");
        *size = file.number(next, 8);
        next += 8;
      }
      break;
    }
    field += bytes;
  }
  return sizes;
}

/// Returns the offset of an entry's data in the file. `offset` is the offset of its local header.
std::uint64_t data_begin(const ZipBytes& file, const std::string& name, std::uint64_t offset) {
  if (!file.has(offset, kLocalHeader))
    refuse_damaged_zip("entry '", printable_text(name), "' is not at offset ", offset);
  const std::uint64_t name_bytes = file.number(offset + 26, 2), extra_bytes = file.number(offset + 28, 2);
  if (file.text(offset + kLocalHeaderBytes, name_bytes) != name)
    refuse_damaged_zip("entry '", printable_text(name), "' has another name in its header at offset ", offset);
  return offset + kLocalHeaderBytes + name_bytes + extra_bytes;
}

}  // namespace

bool is_zip_archive(std::span<const std::byte> bytes) { return ZipBytes(bytes).has(0, kLocalHeader); }

ZipArchive::ZipArchive(std::span<const std::byte> bytes) {
  const ZipBytes file(bytes);
  const Directory directory = find_directory(file);
  std::vector<std::pair<std::uint64_t, std::uint64_t>>
      extents;  // per entry: from the local header to the end of the data
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (!file.has(at, kDirectoryEntry)) refuse_damaged_zip("the directory has no entry at offset ", at);
    const std::uint64_t flags = file.number(at + 8, 2), method = file.number(at + 10, 2);
    const std::uint64_t name_bytes = file.number(at + 28, 2), extra_bytes = file.number(at + 30, 2);
    const std::string name(file.text(at + kDirectoryEntryBytes, name_bytes));
    check_entry_name(name);
    if ((flags & 1) != 0) refuse_zip("entry '", printable_text(name), "' is encrypted; decrypt the archive");
    if (method != 0)
      refuse_zip("entry '", printable_text(name),
                 "' is compressed; unpack the archive and pack it again without compression (zip -0)");
    const EntrySizes sizes = read_sizes(file, at, at + kDirectoryEntryBytes + name_bytes, extra_bytes);
    if (sizes.stored != sizes.unpacked)
      refuse_damaged_zip("entry '", printable_text(name), "' has ", sizes.stored, " stored bytes, but unpacked it has ",
                         sizes.unpacked);
    if (sizes.offset >= directory.offset)
      refuse_damaged_zip("entry '", printable_text(name), "' is not before the directory");
    const std::uint64_t begin = data_begin(file, name, sizes.offset);
    if (begin > directory.offset || sizes.stored > directory.offset - begin)
      refuse_damaged_zip("entry '", printable_text(name), "' of ", sizes.stored, " bytes reaches into the directory");
    if (!index_.emplace(name, entries_.size()).second)
      refuse_damaged_zip("two entries are named '", printable_text(name), "'");
    entries_.push_back({name, bytes.subspan(begin, sizes.stored), static_cast<std::uint32_t>(file.number(at + 16, 4))});
    extents.emplace_back(sizes.offset, begin + sizes.stored);
    at += kDirectoryEntryBytes + name_bytes + extra_bytes + file.number(at + 32, 2);
  }
  if (at != directory.offset + directory.bytes) refuse_damaged_zip("the directory has bytes after its last entry");
  std::ranges::sort(extents);
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].first < extents[i - 1].second)
      refuse_damaged_zip("two entries overlap at offset ", extents[i].first);
  }
}

const ZipEntry* ZipArchive::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

void check_crc(const ZipEntry& entry) { check_crc_until(entry, entry.data.size()); }

void check_crc_until(const ZipEntry& entry, std::size_t bytes) {
  if (entry.crc32 == 0) return;
  CrcProgress& verified = entry.verified;
  if (bytes > verified.bytes) {
    verified.crc32 = crc32(entry.data.subspan(verified.bytes, bytes - verified.bytes), verified.crc32);
    verified.bytes = bytes;
  }
  if (verified.bytes == entry.data.size() && verified.crc32 != entry.crc32)
    refuse_damaged_zip("the data of entry '", printable_text(entry.name), "' does not match its CRC-32");
}

}  // namespace mtl
