#include "formats/zip_writer.h"

#include "base/crc32.h"
#include "base/str.h"

namespace mtl {

namespace {

// See APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16, 4.5.3.
constexpr std::uint32_t kHeaderMark = 0x04034b50, kDirectoryMark = 0x02014b50, kEndMark = 0x06054b50,
                        kEndMark64 = 0x06064b50, kLocatorMark64 = 0x07064b50;
constexpr std::uint16_t kZipVersion = 20, kZipVersion64 = 45, kExtra64 = 1, kPadding = 0x4246;
constexpr std::uint16_t kUtf8Names = 1 << 11;
constexpr std::uint32_t kDate = 0x00210000;  // always January 1, 1980, so that equal contents give equal archives
constexpr std::uint64_t kAlign = 64, kHeaderBytes = 30;

/// Appends little-endian numbers and text.
class ZipRecord {
 public:
  ZipRecord& u16(std::uint64_t value) { return text(to_little_endian(value, 2)); }
  ZipRecord& u32(std::uint64_t value) { return text(to_little_endian(value, 4)); }
  ZipRecord& u64(std::uint64_t value) { return text(to_little_endian(value, 8)); }
  ZipRecord& text(std::string_view value) { return bytes_ += value, *this; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

void ZipWriter::add(const std::string& name, std::span<const std::byte> data) {
  const Entry entry{.name = name, .offset = offset(), .bytes = data.size(), .crc = crc32(data)};
  const bool is_large = needs_zip64(entry.bytes);
  ZipRecord extra;
  if (is_large) extra.u16(kExtra64).u16(16).u64(entry.bytes).u64(entry.bytes);
  // To align the data, add an extra field, which consists of a 4-byte header and zeros.
  const std::uint64_t used = entry.offset + kHeaderBytes + name.size() + extra.bytes().size() + 4;
  const std::uint64_t zeros = (kAlign - used % kAlign) % kAlign;
  extra.u16(kPadding).u16(zeros).text(std::string(zeros, '\0'));
  ZipRecord header;
  header.u32(kHeaderMark).u16(is_large ? kZipVersion64 : kZipVersion).u16(kUtf8Names).u16(0).u32(kDate).u32(entry.crc);
  header.u32(in32(entry.bytes)).u32(in32(entry.bytes)).u16(name.size()).u16(extra.bytes().size());
  header.text(name).text(extra.bytes());
  out_.write(header.bytes());
  out_.write(data.data(), data.size());
  entries_.push_back(entry);
}

void ZipWriter::finish() {
  const std::uint64_t begin = offset();
  for (const Entry& entry : entries_) {
    const bool is_large = needs_zip64(entry.bytes), is_far = needs_zip64(entry.offset);
    ZipRecord extra;
    if (is_large || is_far) extra.u16(kExtra64).u16((is_large ? 16 : 0) + (is_far ? 8 : 0));
    if (is_large) extra.u64(entry.bytes).u64(entry.bytes);
    if (is_far) extra.u64(entry.offset);
    const std::uint16_t version = is_large || is_far ? kZipVersion64 : kZipVersion;
    ZipRecord record;
    record.u32(kDirectoryMark).u16(version).u16(version).u16(kUtf8Names).u16(0).u32(kDate).u32(entry.crc);
    record.u32(in32(entry.bytes)).u32(in32(entry.bytes)).u16(entry.name.size()).u16(extra.bytes().size());
    record.u16(0).u16(0).u16(0).u32(0).u32(in32(entry.offset)).text(entry.name).text(extra.bytes());
    out_.write(record.bytes());
  }
  const std::uint64_t end = offset(), bytes = end - begin, count = entries_.size();
  ZipRecord record;
  if (needs_zip64(begin) || count >= 0xFFFF) {
    record.u32(kEndMark64).u64(44).u16(kZipVersion64).u16(kZipVersion64).u32(0).u32(0);
    record.u64(count).u64(count).u64(bytes).u64(begin);
    record.u32(kLocatorMark64).u32(0).u64(end).u32(1);
  }
  const std::uint64_t short_count = std::min<std::uint64_t>(count, 0xFFFF);
  record.u32(kEndMark).u16(0).u16(0).u16(short_count).u16(short_count).u32(in32(bytes)).u32(in32(begin)).u16(0);
  out_.write(record.bytes());
}

}  // namespace mtl
