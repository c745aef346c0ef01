// Memory in a file (Space::file). Tensors are views into addresses that stand for the file's bytes but cannot be
// accessed: the host reads and writes ranges with a HostView (copy.h), and the optimizer with a FileRing.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/scratch_file.h"

namespace mtl {

class FileMemory {
 public:
  /// Makes `bytes` zeros in a new file without a name in `folder`. Throws Error(io) if that fails.
  FileMemory(const std::string& folder, std::size_t bytes);
  ~FileMemory();
  FileMemory(const FileMemory&) = delete;

  /// The first of the addresses, aligned to pages.
  std::byte* data() const { return data_; }

  // As in ScratchFile, with an address in place of an offset.
  void read_ahead(const void* at, std::size_t bytes) const { file_.read_ahead(offset(at), bytes); }
  void read(const void* at, std::span<std::byte> out) const { file_.read(offset(at), out); }
  void write(const void* at, std::span<const std::byte> from) { file_.write(offset(at), from); }
  void settle(const void* at, std::size_t bytes) { file_.settle(offset(at), bytes); }
  int descriptor() const { return file_.descriptor(); }

 private:
  std::uint64_t offset(const void* at) const { return static_cast<const std::byte*>(at) - data_; }

  ScratchFile file_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace mtl
