// A zip archive of stored entries, as torch.save writes it: the data of every entry begin at a multiple of 64 bytes, so
// that readers can map them. Numbers that do not fit 32 bits are in zip64 fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace mtl {

class ZipWriter {
 public:
  static constexpr std::uint64_t kBeyond32 = 0xFFFFFFFF;  // marks a number that is in a zip64 field

  /// Writes to the beginning of `out`, which must outlive it. Numbers from `zip64_from` on are written in zip64 fields;
  /// tests lower it.
  explicit ZipWriter(OutputFile& out, std::uint64_t zip64_from = kBeyond32) : out_(out), zip64_from_(zip64_from) {}
  void add(const std::string& name, std::span<const std::byte> data);
  void add(const std::string& name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }
  /// The central directory; nothing is added after it.
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t offset, bytes;
    std::uint32_t crc;
  };
  bool needs_zip64(std::uint64_t number) const { return number >= zip64_from_; }
  /// The number, or the marker of a zip64 value if it exceeds 32 bits.
  std::uint64_t in32(std::uint64_t number) const { return needs_zip64(number) ? kBeyond32 : number; }

  OutputFile& out_;
  std::uint64_t zip64_from_;
  std::vector<Entry> entries_;
};

}  // namespace mtl
