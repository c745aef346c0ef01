// File input and output. Every byte that mtl writes to a file, except for lock files, goes through this layer, so that
// tests can make any chosen write fail.
//
// An AtomicFile appears under its final name only when it is complete: the file is written as NAME.tmp.PID, synced, and
// renamed; then its folder is synced. Short writes are continued, and calls that fail with EINTR are retried. A failed
// fsync is never retried, because the kernel may already have marked the page clean; the file counts as lost.
//
// Fault injection: MTL_FAULT=KIND:N[,KIND:N] injects a fault of kind KIND into the N-th operation of this layer in the
// process, counted from 1. The kinds are `kill` (SIGKILL before the operation), `eio`, `enospc`, `eintr`, `short` (only
// half is written), and `slow` (this operation and all later ones are delayed by 0.3 s). `no-exchange`, whose N is
// ignored, simulates a file system that cannot exchange two names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace mtl {

namespace fs = std::filesystem;

/// Error(io) for a full disk or an exhausted quota. This is a separate type so that a caller can add to the message how
/// much space its output needs.
class NoSpaceError : public Error {
 public:
  explicit NoSpaceError(const std::string& what) : Error(Exit::io, what) {}
};

/// A file that is being written. Every function throws Error(io) on failure. If the object is destroyed without
/// close(), the file stays, possibly incomplete.
class OutputFile {
 public:
  /// Creates the file, or truncates an existing file. With `append`, keeps the existing content and writes after it.
  explicit OutputFile(std::string path, bool append = false);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile(OutputFile&& other) noexcept;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Calls fsync. If sync() fails, the file counts as lost.
  void sync();
  void close();
  const std::string& path() const { return path_; }
  /// The number of bytes written through this object, and the XXH3 of these bytes.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t hash() const { return hasher_.digest(); }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  Hasher hasher_;
};

/// A file that appears under its name only at commit(). Without commit(), the destructor removes the temporary file. If
/// the path is a symbolic link, the link is kept and its target is replaced. A device or a FIFO is written to directly
/// and never replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = default;
  OutputFile& out() { return out_; }
  void write(std::string_view text) { out_.write(text); }
  void write(const void* data, std::size_t bytes) { out_.write(data, bytes); }
  /// Syncs and closes the temporary file, so that commit() needs no more disk space and only has to rename the file and
  /// sync the folder. Use seal() for several files that must appear together: seal all of them, then commit all of
  /// them.
  void seal();
  /// Calls seal() unless the file is already sealed, then renames the file and syncs its folder.
  void commit();
  /// Returns the name that the file has until commit().
  static std::string temporary_name(const std::string& path);

 private:
  std::string path_;
  bool is_special_;  // a device or a FIFO
  OutputFile out_;
  bool sealed_ = false, committed_ = false;
};

void write_file_atomic(const std::string& path, std::string_view content);
void rename_path(const std::string& from, const std::string& to);
/// Exchanges the names of two files or folders, atomically if the file system supports this.
void exchange_paths(const std::string& a, const std::string& b);
void sync_directory(const std::string& path);
void make_directories(const std::string& path);
void remove_tree(const std::string& path);
/// Returns the folder part of `path`, or "." if `path` has no folder part.
std::string parent_folder(const std::string& path);

/// Returns the whole content of the file. Throws Error(io) if the file cannot be read.
std::string read_file(const std::string& path);
/// Like read_file(), but throws Error(io) for a device or a FIFO, and never waits for the writer of a FIFO.
std::string read_regular_file(const std::string& path);
/// Reads an open descriptor until end of file. `name` is the file name to use in error messages.
std::string read_descriptor(int descriptor, const std::string& name);
bool file_exists(const std::string& path);
/// Returns true for a folder. Returns false if the path cannot be examined; a later attempt to open the path then
/// reports why.
bool is_directory(const std::string& path);
/// Throws Error(io) if the file cannot be examined.
std::uint64_t file_size(const std::string& path);
/// Returns the XXH3 of the file's content.
std::uint64_t hash_file(const std::string& path);

/// A regular file that is mapped read-only. bytes() of an empty file is an empty span. The constructor throws Error(io)
/// if the file cannot be mapped.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }
  /// Asks the operating system to prefetch `bytes` bytes from `offset`; returns immediately. Does nothing if the range
  /// extends past the end of the file.
  void will_need(std::size_t offset, std::size_t bytes) const;

 private:
  std::string path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mtl
