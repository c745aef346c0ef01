// The decoders behind text/decompress.h. Each takes a file that begins with its format's magic bytes and gives the
// content of all members, streams or frames in it, one after another. What follows the last of them is an error, but
// for the zeros that the formats allow: gzip any number, xz a multiple of four.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/decompress.h"
#include "text/stored_file.h"

namespace mtl {

/// The most memory of a decoder's window, or of all of its threads together.
inline constexpr std::uint64_t kDecoderBytes = std::uint64_t{1} << 30;

/// The base of all decoders: their file and their errors, Error(bad_data).
class FileSource : public ByteSource {
 public:
  FileSource(std::unique_ptr<StoredFile> file, const char* format) : file_(std::move(file)), format_(format) {}
  StoredInput stored() const override { return file_->stored(); }

 protected:
  [[noreturn]] void fail_damaged() const;
  std::string damaged_text() const;
  [[noreturn]] void fail_truncated() const;
  [[noreturn]] void fail_memory() const;
  /// Bytes that belong to no member, stream or frame.
  [[noreturn]] void fail_trailing() const;

  std::unique_ptr<StoredFile> file_;

 private:
  const char* format_;
};

bool begins_gzip(std::string_view head);
bool begins_xz(std::string_view head);
bool begins_zstd(std::string_view head);

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredFile> file);
/// Blocks (`xz -T`) are decoded by up to `threads` threads.
std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredFile> file, int threads);
/// Frames of up to 16 MiB as stored, and 32 MiB of content where they say so, are decoded by up to `threads` threads.
std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredFile> file, int threads);

}  // namespace mtl
