// A file without a name, for data that memory has no room for. It disappears with its process, even after SIGKILL, and
// removing its folder does not affect it.
//
// Disk space is reserved when the file is created, so a full disk is found before any work. File systems that write in
// place (ext4, XFS) cannot run out of space after that; those that write elsewhere (Btrfs, ZFS) can, and write() then
// throws.
//
// The file's pages do not stay in the page cache: read() drops them, and settle() drops those that were written. So
// neither a process nor its memory cgroup grows with the file. Reads and writes through this class bring and drop
// whole pages, so a page that two ranges share may be read twice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace mtl {

/// All functions that throw, throw Error(io). Several threads may use a file, on ranges that do not overlap.
class ScratchFile {
 public:
  /// Creates a file of `bytes` zeros in `folder`. `label` begins the messages of errors, such as "--flag FOLDER".
  ScratchFile(std::string label, const std::string& folder, std::uint64_t bytes);

  /// Starts reading a range into the page cache, and returns immediately.
  void read_ahead(std::uint64_t offset, std::uint64_t bytes) const;
  /// Fills `out` with the file's bytes from `offset`. Throws if the file cannot be read, or if data that was written to
  /// it was lost.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Writes to the page cache, and starts writing back to the disk.
  void write(std::uint64_t offset, std::span<const std::byte> from);
  /// Waits until a range that was written is on the disk. Throws if that fails; then the file counts as lost, and so do
  /// all later calls.
  void settle(std::uint64_t offset, std::uint64_t bytes);
  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void fail_with(int code, const std::string& action) const;
  [[noreturn]] void fail_lost(int code);
  void drop(std::uint64_t offset, std::uint64_t bytes) const;

  std::string label_;
  Descriptor descriptor_;
  std::atomic<int> lost_ = 0;  // the first error of writing, as in errno, after which data is missing
};

/// Returns true if the files in `folder` are in memory (tmpfs).
bool is_in_memory(const std::string& folder);

}  // namespace mtl
