// A file that stays open for reading. If the file is truncated or its disk fails, read() throws an Error, whereas a
// memory map (files.h) would return zeros or raise SIGBUS.
//
// Use OpenFile for short scattered reads, such as the tokens of a sample. When read() returns, the bytes are known to
// be valid, in every program and thread and for any number of files. Whole files and strided slices, such as those of
// models, are read through memory maps instead, which need no call and no copy per piece (mapped_faults.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mtl {

class OpenFile {
 public:
  /// Throws Error(io) if the file cannot be opened.
  explicit OpenFile(const std::string& path);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;

  /// Fills `out` with the bytes of the file from `offset`. Throws Error(io) if the file ends before `out` is full or
  /// cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Throws Error(io) if the file has fewer than `expected` bytes.
  void check_size(std::uint64_t expected) const;

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace mtl
