// Every byte that mtl writes to a file, locks aside, goes through this layer, so that tests can make any write fail.
//
// An AtomicFile appears under its final name only when complete: it is written as NAME.tmp.PID, synced, then renamed,
// and its folder synced. Short writes are continued, EINTR is retried, a failed fsync is never retried (the page may
// have been marked clean: the file counts as lost).
//
// Fault injection: with MTL_FAULT=KIND:N[,KIND:N] the N-th operation of this layer in the process, from 1, suffers
// KIND: `kill` (SIGKILL before it), `eio`, `enospc`, `eintr`, `short` (writes half), `slow` (delays it and every later
// operation by 0.3 s). For any N, `no-exchange` simulates a file system that cannot exchange two names.
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

/// Error(io) for a full disk or an exhausted quota: a caller that knows how much space its output needs can add that to
/// the message.
class NoSpaceError : public Error {
 public:
  explicit NoSpaceError(const std::string& what) : Error(Exit::io, what) {}
};

/// A file being written. Throws Error(io) on any failure. A file that is destroyed without close() stays, possibly
/// incomplete.
class OutputFile {
 public:
  /// Creates or truncates `path`; with `append`, keeps its content and writes after it.
  explicit OutputFile(std::string path, bool append = false);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile(OutputFile&& other) noexcept;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Calls fsync. After a failure the file counts as lost.
  void sync();
  void close();
  const std::string& path() const { return path_; }
  /// Bytes written through this object, and their XXH3.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t hash() const { return hasher_.digest(); }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  Hasher hasher_;
};

/// A file that appears under its name only at commit(). Without commit(), the destructor removes the temporary file. A
/// symbolic link is kept: its target is replaced. A device or a FIFO is written to, never replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = default;
  OutputFile& out() { return out_; }
  void write(std::string_view text) { out_.write(text); }
  void write(const void* data, std::size_t bytes) { out_.write(data, bytes); }
  /// Syncs and closes, so that commit() only renames and needs no more disk space. For files that must appear together.
  void seal();
  /// Seals the file if seal() was not called, renames it, and syncs the folder.
  void commit();
  /// Returns the name of the file until commit().
  static std::string temporary_name(const std::string& path);

 private:
  std::string path_;
  bool is_special_;  // a device or a FIFO
  OutputFile out_;
  bool sealed_ = false, committed_ = false;
};

void write_file_atomic(const std::string& path, std::string_view content);
void rename_path(const std::string& from, const std::string& to);
/// Exchanges two names, atomically where the file system can.
void exchange_paths(const std::string& a, const std::string& b);
void sync_directory(const std::string& path);
void make_directories(const std::string& path);
void remove_tree(const std::string& path);
/// Returns the folder of a file, "." if its path names none.
std::string parent_folder(const std::string& path);

/// Returns the whole content. Throws Error(io) if the file cannot be read.
std::string read_file(const std::string& path);
/// Like read_file(), but throws Error(io) for a device, and for a FIFO instead of waiting for its writer.
std::string read_regular_file(const std::string& path);
/// Reads an open descriptor to its end; `name` is for messages.
std::string read_descriptor(int descriptor, const std::string& name);
bool file_exists(const std::string& path);
/// Also false for a path that cannot be examined: opening it reports why.
bool is_directory(const std::string& path);
/// Throws Error(io) if the file cannot be examined.
std::uint64_t file_size(const std::string& path);
/// XXH3 of the file's content.
std::uint64_t hash_file(const std::string& path);

/// A regular file mapped read-only; an empty file gives an empty span. Throws Error(io) if it cannot be mapped.
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
  /// Asks the system to read a part of the file ahead, and returns at once; ignores a range beyond the end.
  void will_need(std::size_t offset, std::size_t bytes) const;

 private:
  std::string path_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mtl
