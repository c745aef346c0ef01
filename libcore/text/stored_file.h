// A file or standard input, before decompression: read in order, hashed and counted.
//
// Throws Error(io) if a regular file ends before the size it had when it was opened. Such a file was truncated while it
// was being read, and what has been read may look complete. Throws Error(bad_data) for a Git LFS pointer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "text/decompress.h"

namespace mtl {

class StoredFile {
 public:
  /// `path` can be "-". Throws Error(io) if the file cannot be opened. Functions that read throw Error(io) if reading
  /// fails.
  explicit StoredFile(const std::string& path);
  ~StoredFile();
  StoredFile(const StoredFile&) = delete;

  /// Returns bytes that have been read but not consumed. Valid until the next fill.
  std::string_view available() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) { begin_ += bytes; }
  /// Reads more bytes after the available ones. Enlarges the buffer if it is full. Returns false at the end of the
  /// file.
  bool fill();
  /// Reads up to `bytes` bytes, bypassing the buffer if it is empty. Returns 0 only at the end of the file.
  std::size_t read(char* out, std::size_t bytes);
  /// Fills the buffer until `bytes` bytes are available or the file ends. Returns true if they are available.
  bool fill_to(std::size_t bytes);
  /// True if nothing is available and the file has ended.
  bool at_end() { return available().empty() && !fill(); }

  bool is_regular() const { return regular_bytes_.has_value(); }
  /// The file's name in messages.
  std::string name() const { return input_name(stored_.path); }
  /// Returns the offset of the first available byte, relative to where reading started.
  std::uint64_t offset() const { return stored_.bytes - available().size(); }
  /// Returns the number and hash of all bytes read, including available ones.
  StoredInput stored() const;

 private:
  void read_ahead(std::size_t bytes);
  std::size_t read_file(char* out, std::size_t bytes);
  [[noreturn]] void fail_shrunk() const;

  StoredInput stored_;
  int descriptor_;
  std::int64_t advised_ = 0;                    // end of the part that we asked the system to read ahead
  std::uint64_t opened_bytes_ = 0;              // regular file: its size when it was opened
  std::optional<std::uint64_t> regular_bytes_;  // regular file: bytes from the start of reading to the end
  Hasher hasher_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace mtl
