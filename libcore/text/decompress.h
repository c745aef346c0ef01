// Bytes from a file or standard input, decompressed on the way: gzip, xz and zstd are known by their first bytes,
// whatever the name. Several members, streams or frames in one file are read one after another.
//
// Decoding runs ahead in a thread of its own, and in several where the format allows it: blocks of xz, and frames of
// zstd that are not too long. A gzip member can only be decoded from its beginning, by one thread. Plain text is read
// when it is asked for, while the system reads ahead.
//
// A truncated or damaged file is Error(bad_data) that names it, and so are one with something else behind its data, one
// whose decoder wants more than 1 GiB, and one that was packed in another way (bzip2, zip, ...).
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
  /// Bytes read from the file itself; all of them once read() has returned 0.
  virtual StoredInput stored() const = 0;
};

/// `path` may be "-", standard input. `threads`: how many decode at most; 0 means one for each core, up to 8.
std::unique_ptr<ByteSource> open_input(const std::string& path, int threads = 0);

/// The whole content.
std::string read_all(const std::string& path);

/// The name of an input in messages: its path, or "standard input".
std::string input_name(const std::string& path);

}  // namespace mtl
