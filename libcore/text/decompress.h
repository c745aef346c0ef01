// Reads bytes from a file or from standard input. Decompresses gzip, xz and zstd, which are recognized by their first
// bytes, not by the file name. Several members, streams or frames in one file are read in order.
//
// Decoding of a regular file runs ahead in its own thread. xz blocks, and zstd frames that are not too long, are
// decoded in several threads. A gzip member can only be decoded from its beginning, by a single thread. Plain text is
// read on demand, while the operating system reads ahead.
//
// Throws Error(bad_data), which names the file, if a file is truncated or damaged, has other data after its end, needs
// more than 1 GiB to decode, or is in another format (bzip2, zip, ...).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace mtl {

/// A stored file, for provenance.
struct StoredInput {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // XXH3
  bool operator==(const StoredInput&) const = default;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `bytes` bytes; 0 only at the end.
  virtual std::size_t read(char* buffer, std::size_t bytes) = 0;
  /// Returns the size and the hash of the stored bytes that were read so far: of all stored bytes, once read() has
  /// returned 0.
  virtual StoredInput stored() const = 0;
};

/// `path` may be "-", standard input. Decodes in up to `threads` threads; 0 means one per core, up to 8. Throws
/// Error(io) if the file cannot be read.
std::unique_ptr<ByteSource> open_input(const std::string& path, int threads = 0);

/// Returns the whole content, decompressed.
std::string read_all(const std::string& path);

/// The name of an input in messages: its path, or "standard input".
std::string input_name(const std::string& path);

}  // namespace mtl
