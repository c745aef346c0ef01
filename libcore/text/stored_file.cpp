#include "text/stored_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/lfs_pointer.h"

namespace mtl {

namespace {

constexpr off_t kAheadBytes = 4 << 20;

}  // namespace

StoredFile::StoredFile(const std::string& path) : buffer_(1 << 18) {
  stored_.path = path;
  descriptor_ = path == "-" ? STDIN_FILENO : open_or_wait(path).release();
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) return;
  // Some of standard input may already have been read.
  opened_bytes_ = static_cast<std::uint64_t>(info.st_size);
  const auto begin = static_cast<std::uint64_t>(std::max<off_t>(0, ::lseek(descriptor_, 0, SEEK_CUR)));
  regular_bytes_ = opened_bytes_ - std::min(opened_bytes_, begin);
}

StoredFile::~StoredFile() {
  if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
}

/// Asks the operating system to read ahead beyond the next `bytes` bytes. Requests each part of the file only once,
/// because every requested page costs a lookup, even if it is cached. Ignores errors, which only make reading slower.
void StoredFile::read_ahead(std::size_t bytes) {
  const off_t next = ::lseek(descriptor_, 0, SEEK_CUR) + static_cast<off_t>(bytes);
  if (next + kAheadBytes / 2 < advised_) return;
  const off_t begin = std::max(next, advised_);
  advised_ = next + kAheadBytes;
  ::posix_fadvise(descriptor_, begin, advised_ - begin, POSIX_FADV_WILLNEED);
}

void StoredFile::fail_shrunk() const {
  struct stat now {};
  const std::uint64_t bytes = ::fstat(descriptor_, &now) == 0 ? static_cast<std::uint64_t>(now.st_size) : 0;
  fail(Exit::io, name(), ": the file was truncated while it was read, from ", opened_bytes_, " to ", bytes,
       " bytes; start again with the complete file");
}

/// Calls read(2) once. Hashes and counts the bytes.
std::size_t StoredFile::read_file(char* out, std::size_t bytes) {
  if (is_regular()) read_ahead(bytes);
  ssize_t got;
  do {
    got = ::read(descriptor_, out, bytes);
  } while (got < 0 && errno == EINTR);
  if (got < 0) fail_errno(name(), "read");
  if (got == 0 && regular_bytes_ && stored_.bytes < *regular_bytes_) fail_shrunk();
  if (stored_.bytes == 0) refuse_lfs_pointer(name(), {out, static_cast<std::size_t>(got)});
  hasher_.update(out, got);
  stored_.bytes += static_cast<std::uint64_t>(got);
  return got;
}

std::size_t StoredFile::read(char* out, std::size_t bytes) {
  const std::string_view buffered = available();
  if (buffered.empty()) return read_file(out, bytes);
  const std::size_t count = std::min(bytes, buffered.size());
  std::memcpy(out, buffered.data(), count);
  consume(count);
  return count;
}

bool StoredFile::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t got = read_file(buffer_.data() + end_, buffer_.size() - end_);
  end_ += got;
  return got > 0;
}

bool StoredFile::fill_to(std::size_t bytes) {
  while (available().size() < bytes) {
    if (!fill()) return false;
  }
  return true;
}

StoredInput StoredFile::stored() const {
  StoredInput out = stored_;
  out.hash = hasher_.digest();
  return out;
}

}  // namespace mtl
