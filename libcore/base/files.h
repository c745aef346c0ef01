// Every byte that mtl writes to a file goes through this layer, so that tests can make any write fail.
//
// A file appears under its final name only when complete: it is written as NAME.tmp.PID, synced, then renamed, and its
// folder synced. Short writes are continued, EINTR is retried, a failed fsync is never retried (the page may have
// been marked clean: the file counts as lost).
//
// Fault injection: with MTL_FAULT=KIND:N[,KIND:N] the N-th operation of this layer in the process, from 1, meets KIND:
// `kill` (SIGKILL before it), `eio`, `enospc`, `eintr`, `short` (half is written), `slow` (from there on, 0.3 s each).
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

/// Error(io) of a disk that is full, or of a quota that is used up: a caller that knows how much is still to come can
/// add it.
class NoSpaceError : public Error {
 public:
  explicit NoSpaceError(const std::string& what) : Error(Exit::io, what) {}
};

/// A file being written. Throws Error(io) on any failure. A file that is not closed stays, incomplete.
class OutputFile {
 public:
  /// Creates or empties `path`; with `append` it continues at the end.
  explicit OutputFile(std::string path, bool append = false);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile(OutputFile&& other) noexcept;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// fsync. After a failure the file counts as lost.
  void sync();
  void close();
  const std::string& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  /// XXH3 of all that was written through this object.
  std::uint64_t hash() const { return hasher_.digest(); }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  Hasher hasher_;
};

/// A file that appears under its name only at commit(). Without it the temporary file is removed. A symbolic link stays
/// one: what it points to is replaced. A device or a FIFO is written to, never replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = default;
  OutputFile& out() { return out_; }
  void write(std::string_view text) { out_.write(text); }
  void write(const void* data, std::size_t bytes) { out_.write(data, bytes); }
  /// fsync: what can fail for want of space is done, commit() only gives the name. For files that appear together.
  void seal();
  /// Seals what is not sealed, renames, and syncs the folder.
  void commit();
  /// The name of the file until commit().
  static std::string temporary_name(const std::string& path);

 private:
  std::string path_;
  bool is_special_;  // a device or a FIFO
  OutputFile out_;
  bool sealed_ = false, committed_ = false;
};

void write_file_atomic(const std::string& path, std::string_view content);
void rename_path(const std::string& from, const std::string& to);
/// Each gets the other's name, in one step where the file system can.
void exchange_paths(const std::string& a, const std::string& b);
void sync_directory(const std::string& path);
void make_directories(const std::string& path);
void remove_tree(const std::string& path);
/// The folder of a file, "." when its path names none.
std::string parent_folder(const std::string& path);

/// The whole file. Throws Error(io) when it cannot be read.
std::string read_file(const std::string& path);
/// As read_file, of a regular file only: a FIFO, at which read_file waits for a writer, is Error(io), as is a device.
std::string read_regular_file(const std::string& path);
/// Everything that an open descriptor still gives; `name` is for messages.
std::string read_descriptor(int descriptor, const std::string& name);
bool file_exists(const std::string& path);
/// False, too, for a path that cannot be examined: opening it gives the reason.
bool is_directory(const std::string& path);
/// Throws Error(io) when there is no such file.
std::uint64_t file_size(const std::string& path);
/// XXH3 of the file's content.
std::uint64_t hash_file(const std::string& path);

/// A file mapped read-only; an empty file gives an empty span.
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
  /// Asks the system to read a part of the file ahead; returns at once.
  void will_need(std::size_t offset, std::size_t bytes) const;

 private:
  std::string path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mtl
