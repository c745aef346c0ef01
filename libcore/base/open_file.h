// A file that stays open for reading. If it becomes shorter or its disk fails, read() throws an Error; a memory map
// (files.h) would give zeros or SIGBUS.
//
// For short scattered reads, such as the tokens of a sample: the bytes are known to be valid when read() returns, in
// any program and thread, for any number of files. Whole files and strided slices, such as those of models, are read
// through maps, without a call and a copy for each piece (mapped_faults.h).
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

  /// Fills `out` from byte `offset`. Throws Error(io) if the file ends earlier, or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Throws Error(io) if the file has fewer than `expected` bytes.
  void check_size(std::uint64_t expected) const;

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace mtl
