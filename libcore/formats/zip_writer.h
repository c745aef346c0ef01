// Writes a zip archive with uncompressed entries, like torch.save(). Every entry's data starts at a multiple of 64
// bytes, so that readers can map it. Numbers that do not fit in 32 bits go into zip64 fields.
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
  static constexpr std::uint64_t kBeyond32 = 0xFFFFFFFF;  // marks a number that is in a zip64 field instead

  /// The archive begins at the end of `out`, which the caller must keep alive. Numbers of at least `zip64_from` go into
  /// zip64 fields; tests lower this limit.
  explicit ZipWriter(OutputFile& out, std::uint64_t zip64_from = kBeyond32)
      : out_(out), start_(out.bytes()), zip64_from_(zip64_from) {}
  void add(const std::string& name, std::span<const std::byte> data);
  void add(const std::string& name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }
  /// Writes the central directory. Must be the last call.
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t offset, bytes;
    std::uint32_t crc;
  };
  bool needs_zip64(std::uint64_t number) const { return number >= zip64_from_; }
  /// Returns `number`, or kBeyond32 if it goes into a zip64 field.
  std::uint64_t in32(std::uint64_t number) const { return needs_zip64(number) ? kBeyond32 : number; }

  std::uint64_t offset() const { return out_.bytes() - start_; }

  OutputFile& out_;
  std::uint64_t start_;  // of the archive in `out_`; the archive counts offsets from there
  std::uint64_t zip64_from_;
  std::vector<Entry> entries_;
};

}  // namespace mtl
