// File input and output. Everything mtl writes to files, except for lock files, goes through this layer, so that tests
// can make any write fail.
//
// A file or folder appears under its final name only once it is complete: it is written as NAME.tmp.PID and synced, and
// publish() renames it and syncs its folder. AtomicFile does all of this for a file. Short writes are continued, and
// reads and writes that fail with EINTR are retried. A failed fsync is never retried, because the kernel may already
// have marked the page clean; the file counts as lost.
//
// Fault injection: base/fault_plan.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/hash.h"

namespace mtl {

namespace fs = std::filesystem;

/// Error(io) if a write or sync finds a full disk or an exceeded quota. A separate type, so that callers can add how
/// much space their output needs.
class NoSpaceError : public Error {
 public:
  explicit NoSpaceError(const std::string& what) : Error(Exit::io, what) {}
};

/// Returns what to free on the disk of `path`, which need not exist, after ENOSPC or EDQUOT: "; free some space on that
/// disk", or inodes if none are left.
std::string full_disk_remedy(const std::string& path);

class InterruptGuard;

/// A file being written. The constructor, write(), sync() and close() throw Error(io) on failure. Without close(), the
/// destructor closes the file as it is, possibly incomplete, and ignores errors.
class OutputFile {
 public:
  /// Creates or truncates the file. With `append`, keeps existing content and writes after it. Waits until another
  /// process reads a FIFO, and says so on stderr after a second.
  explicit OutputFile(std::string path, bool append = false);

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Calls fsync. If this fails, the file counts as lost.
  void sync();
  void close();
  const std::string& path() const { return path_; }
  /// The number of bytes written through this object, and their XXH3.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t hash() const { return hasher_.digest(); }

 private:
  std::string path_;
  Descriptor descriptor_;
  std::uint64_t start_ = 0;  // the file's size before the first write
  std::uint64_t bytes_ = 0;
  Hasher hasher_;
};

/// Must follow each write that appends the bytes from `begin` to `end` to a file. Starts writing them to the disk in
/// large parts, and waits for earlier ones, so that the final sync has little left to do. Returns false, with errno, if
/// data was lost. OutputFile calls this.
bool write_back(int descriptor, std::uint64_t begin, std::uint64_t end);

/// A file that appears under its name only at commit(). Without commit(), the destructor removes the temporary file. If
/// the path is a symbolic link, the link stays and its target is replaced. Devices and FIFOs are written directly,
/// never replaced.
class AtomicFile {
 public:
  /// With `guard`, which must outlive this object, a signal removes the temporary file, and waits while commit()
  /// renames it. `guard` must not have registered other files that are still unfinished at commit().
  explicit AtomicFile(const std::string& path, InterruptGuard* guard = nullptr);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = default;
  OutputFile& out() { return out_; }
  void write(std::string_view text) { out_.write(text); }
  void write(const void* data, std::size_t bytes) { out_.write(data, bytes); }
  /// Syncs and closes the temporary file, so that commit() needs no more disk space and only has to rename the file and
  /// sync the folder. For files that must appear together, seal all of them, then commit all of them.
  void seal();
  /// Seals the file unless sealed, renames it, and syncs its folder.
  void commit();
  /// Returns the name under which a regular file is written before commit(). A device or FIFO is written in place.
  static std::string temporary_name(const std::string& path);

 private:
  std::string path_;
  bool is_special_;  // a device or a FIFO
  InterruptGuard* guard_;
  OutputFile out_;
  bool sealed_ = false, committed_ = false;
};

// The functions below that write, rename, sync, create or remove throw Error(io) on failure.

/// Writes an entire AtomicFile. Without `guard`, the file has a fixed name in a folder, and must not be a device or
/// FIFO.
void write_file_atomic(const std::string& path, std::string_view content, InterruptGuard* guard = nullptr);
/// Renames a complete file or folder, whose content is synced, to its final name, and syncs the folder that contains
/// it. Both names must be in one file system. With `exchange`, the two names are exchanged, so that an old folder,
/// which a rename cannot replace, ends up at `temporary`. This is atomic if the file system supports it; otherwise a
/// crash can leave the old folder at PATH.old. Whoever removes the old folder must do so after this call.
void publish(const std::string& temporary, const std::string& path, bool exchange = false);
/// Renames a file or folder, without syncing. If the file system cannot rename a folder, such as one of a container's
/// image in overlayfs, copies it and removes the original; then a crash can leave both, one of them incomplete.
void rename_path(const std::string& from, const std::string& to);
/// Syncs a folder; "" is the current one. Does nothing in a file system that cannot sync folders.
void sync_directory(const std::string& path);
/// Creates a folder and the folders above it, unless they exist. Does nothing for "".
void make_directories(const std::string& path);
/// make_directories(), and syncs the folders that contain the new ones, so that these outlast a power failure.
void make_output_directories(const std::string& path);
/// Removes a file, or a folder with its contents, if it exists.
void remove_tree(const std::string& path);
/// Returns the target if `path` is a symbolic link; otherwise returns `path`.
std::string follow_link(const std::string& path);
/// Returns the folder part of `path`, or "." if `path` has no folder part.
std::string parent_folder(const std::string& path);

// The functions that read content, and MappedFile, throw Error(bad_data) if the file is a Git LFS pointer
// (lfs_pointer.h).

/// Opens a file that the user named. Waits until another process writes to a FIFO, and says so on stderr after a
/// second. Throws Error(io) if the file cannot be opened.
Descriptor open_or_wait(const std::string& path);
/// Returns the entire content of a file that the user named, which may be a FIFO: see open_or_wait(). Throws Error(io)
/// if it cannot be read.
std::string read_file(const std::string& path);
/// Returns the entire content of a file with a fixed name in a folder. Throws Error(io) if it cannot be read, and for a
/// device or FIFO, without waiting for a FIFO's writer.
std::string read_regular_file(const std::string& path);
/// Throws Error(io) for a device, FIFO or socket.
void refuse_special_file(const std::string& path);
/// Reads an open descriptor until end of file. Error messages call it `name`. Throws Error(io) if it cannot be read.
std::string read_descriptor(int descriptor, const std::string& name);

/// Returns true if `name` cannot lead out of the folder that it is joined with: it is not empty, "." or "..", and has
/// no slash and no zero byte, at which the system would end it.
bool is_plain_name(std::string_view name);
/// Returns true for a file or folder of any kind. Returns false if the path cannot be examined.
bool file_exists(const std::string& path);
/// Returns true for a regular file, also through a link. Returns false if the path cannot be examined.
bool is_regular_file(const std::string& path);
/// Returns true for a folder. Returns false if the path cannot be examined; opening it later reports why.
bool is_directory(const std::string& path);
/// Returns the path if it exists; otherwise the nearest folder or file above it that does.
std::string nearest_existing(const std::string& path);
/// Returns the names in a folder, sorted by their bytes. Leaves out what cannot be listed, even all of them: for
/// callers to whom the folder need not exist, and who report its errors when they write into it.
std::vector<std::string> list_names(const std::string& folder);
/// Throws Error(io) if the file cannot be examined.
std::uint64_t file_size(const std::string& path);
/// Returns the XXH3 of a regular file. Throws what MappedFile's constructor throws.
std::uint64_t hash_file(const std::string& path);

/// A regular file, mapped read-only. bytes() is empty for an empty file. The constructor throws Error(io) on failure.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_.get()), size()}; }
  std::string_view text() const { return {static_cast<const char*>(data_.get()), size()}; }
  const std::string& path() const { return path_; }
  /// Starts prefetching `bytes` bytes from `offset` and returns immediately. Does nothing if the range ends beyond the
  /// file.
  void will_need(std::size_t offset, std::size_t bytes) const;
  /// Removes `bytes` bytes from `offset` from this process's memory; reading them again maps them again. Does nothing
  /// if the range ends beyond the file.
  void release(std::size_t offset, std::size_t bytes) const;

 private:
  void advise(std::size_t offset, std::size_t bytes, int advice) const;

  struct Unmap {
    std::size_t size;
    void operator()(void* data) const;
  };
  std::size_t size() const { return data_ ? data_.get_deleter().size : 0; }

  std::string path_;
  std::unique_ptr<void, Unmap> data_;  // null for an empty file
};

}  // namespace mtl
