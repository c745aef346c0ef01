// The decoders for text/decompress.h. Each decoder reads a file that starts with its format's magic bytes, and decodes
// all members, streams or frames in order. Other data at the end is an error, except zero padding that the format
// allows: any number of zeros for gzip, a multiple of four for xz.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/decompress.h"
#include "text/stored_file.h"

namespace mtl {

/// Memory limit for a zstd window, and for an xz decoder with all its threads.
inline constexpr std::uint64_t kDecoderBytes = std::uint64_t{1} << 30;

/// A file that is not compressed, and the base class of those that are. Throws their errors, which are Error(bad_data).
class FileSource : public ByteSource {
 public:
  FileSource(std::unique_ptr<StoredFile> file, const char* format) : file_(std::move(file)), format_(format) {}
  StoredInput stored() const override { return file_->stored(); }

 protected:
  [[noreturn]] void fail_damaged() const;
  std::string damage_message() const;
  [[noreturn]] void fail_truncated() const;
  [[noreturn]] void fail_memory() const;
  /// Throws the error for other data after the last member, stream or frame, which ends at byte `end`.
  [[noreturn]] void fail_trailing(std::uint64_t end) const;

  std::unique_ptr<StoredFile> file_;

 private:
  std::size_t read_some(char* buffer, std::size_t bytes) override { return file_->read(buffer, bytes); }

  const char* format_;
};

bool begins_gzip(std::string_view head);
bool begins_xz(std::string_view head);
bool begins_zstd(std::string_view head);

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredFile> file);
/// Decodes blocks (`xz -T`) on up to `threads` threads.
std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredFile> file, int threads);
/// Decodes frames of up to 16 MiB, and up to 32 MiB decoded if they declare their size, on up to `threads` threads.
/// Decodes all other frames as a stream.
std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredFile> file, int threads);

}  // namespace mtl
