// A file that stays open for reading. If it is truncated or its disk fails, read() throws, whereas a memory map
// (files.h) would return zeros or raise SIGBUS.
//
// Meant for short scattered reads, such as a sample's tokens. Whatever read() returns is valid, in every program and
// thread, for any number of files. Entire files and strided slices, as in models, are read through memory maps instead,
// which need neither a call nor a copy per piece (mapped_faults.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace mtl {

class OpenFile {
 public:
  /// Throws Error(io) if the file cannot be opened.
  explicit OpenFile(const std::string& path);

  /// Fills `out` with the file's bytes from `offset`. Throws Error(io) if the file ends too early or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Throws Error(io) if the file has fewer than `expected` bytes.
  void check_size(std::uint64_t expected) const;

 private:
  std::string path_;
  Descriptor descriptor_;
};

}  // namespace mtl
