// A file or standard input, before decompression: read in order, hashed and counted.
//
// A regular file that ends before the size that it had when it was opened is Error(io): it was cut while it was read,
// and what is left may look complete.
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
  /// `path` may be "-". Throws Error(io) when it cannot be opened or read.
  explicit StoredFile(const std::string& path);
  ~StoredFile();
  StoredFile(const StoredFile&) = delete;

  /// Bytes read and not consumed yet; valid until the next fill.
  std::string_view available() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) { begin_ += bytes; }
  /// Reads more behind what is available, making room if need be; false at the end of the file.
  bool fill();
  /// Reads up to `bytes` bytes, past the buffer when nothing is available; 0 only at the end of the file.
  std::size_t read(char* out, std::size_t bytes);
  /// Fills until `bytes` are available or the file ends; returns whether they are.
  bool fill_to(std::size_t bytes);
  /// True when nothing is available and nothing can be.
  bool at_end() { return available().empty() && !fill(); }

  bool is_regular() const { return regular_bytes_.has_value(); }
  /// Its name in messages.
  std::string name() const { return input_name(stored_.path); }
  /// The place of the first byte that is available.
  std::uint64_t offset() const { return stored_.bytes - available().size(); }
  StoredInput stored() const;

 private:
  void read_ahead(std::size_t bytes);
  std::size_t read_file(char* out, std::size_t bytes);

  StoredInput stored_;
  int descriptor_;
  std::int64_t advised_ = 0;                    // up to where the system was asked to read ahead
  std::optional<std::uint64_t> regular_bytes_;  // from where reading begins to the end, for a regular file
  Hasher hasher_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace mtl
