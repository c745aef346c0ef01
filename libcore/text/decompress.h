// Reads bytes from a file or from standard input. Decompresses gzip, xz and zstd, which it recognizes by their first
// bytes, not by file name. Multiple members, streams or frames in one file are read in order.
//
// A regular file is decoded ahead in a separate thread. xz blocks, and zstd frames that are not too long, are decoded
// on multiple threads. A gzip member can only be decoded from its start, by a single thread. Plain text is read on
// demand, while the operating system reads ahead.
//
// Throws Error(bad_data) with the file name if a file is truncated or damaged, has other data after its end, needs more
// than 1 GiB to decode, or if its content, as stored or decompressed, is of another format than UTF-8 text without a
// byte order mark (text/other_formats.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace mtl {

/// A stored file, for provenance.
struct StoredInput {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;   // XXH3
  std::string unpack = {};  // the shell command that decompresses the file, such as "gzip -dc", or ""
  bool operator==(const StoredInput&) const = default;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `bytes` bytes, at most 1 GiB. Returns 0 only at the end, or if `bytes` is 0.
  std::size_t read(char* buffer, std::size_t bytes);
  /// Returns the size and hash of the stored bytes read so far, which are all of them once read() has returned 0.
  virtual StoredInput stored() const = 0;

 private:
  /// Reads 1 to `bytes` bytes. Returns 0 only at the end. `bytes` is from 1 to 1 GiB.
  virtual std::size_t read_some(char* buffer, std::size_t bytes) = 0;
};

/// `path` can be "-", standard input. Decodes on up to `threads` threads; 0 means one per core, up to 8. Throws
/// Error(io) if the file cannot be read.
std::unique_ptr<ByteSource> open_input(const std::string& path, int threads = 0);

/// Returns the whole content, decompressed. Also describes the file in `*stored`, unless `stored` is null.
std::string read_all(const std::string& path, StoredInput* stored = nullptr);

/// Returns an input's name for messages: its path, or "standard input".
std::string input_name(const std::string& path);

}  // namespace mtl
