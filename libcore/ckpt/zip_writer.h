// A zip archive of stored entries, as torch.save writes it: the data of every entry begin at a multiple of 64 bytes, so
// that readers can map them. Entries and archives beyond 4 GiB have zip64 fields.
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
  /// Writes to the beginning of `out`, which must outlive it.
  explicit ZipWriter(OutputFile& out) : out_(out) {}
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
  OutputFile& out_;
  std::vector<Entry> entries_;
};

}  // namespace mtl
