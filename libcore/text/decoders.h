// The decoders used by text/decompress.h. Each decoder reads a file that begins with the magic bytes of its format, and
// decodes all members, streams or frames of the file in order. Other data at the end is an error, except zero padding
// that the format allows: any number of zeros for gzip, a multiple of four for xz.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/decompress.h"
#include "text/stored_file.h"

namespace mtl {

/// The memory limit of a zstd window, and of an xz decoder with all its threads.
inline constexpr std::uint64_t kDecoderBytes = std::uint64_t{1} << 30;

/// The base class of all sources. Holds the file, and throws the errors of the sources, Error(bad_data).
class FileSource : public ByteSource {
 public:
  FileSource(std::unique_ptr<StoredFile> file, const char* format) : file_(std::move(file)), format_(format) {}
  StoredInput stored() const override { return file_->stored(); }

 protected:
  [[noreturn]] void fail_damaged() const;
  std::string damage_message() const;
  [[noreturn]] void fail_truncated() const;
  [[noreturn]] void fail_memory() const;
  /// Throws the error for other data after the last member, stream or frame.
  [[noreturn]] void fail_trailing() const;

  std::unique_ptr<StoredFile> file_;

 private:
  const char* format_;
};

bool begins_gzip(std::string_view head);
bool begins_xz(std::string_view head);
bool begins_zstd(std::string_view head);

std::unique_ptr<ByteSource> make_gzip_source(std::unique_ptr<StoredFile> file);
/// Decodes blocks (`xz -T`) in up to `threads` threads.
std::unique_ptr<ByteSource> make_xz_source(std::unique_ptr<StoredFile> file, int threads);
/// Decodes frames of up to 16 MiB, with up to 32 MiB of content if they declare its size, in up to `threads` threads;
/// decodes all other frames as a stream.
std::unique_ptr<ByteSource> make_zstd_source(std::unique_ptr<StoredFile> file, int threads);

}  // namespace mtl
