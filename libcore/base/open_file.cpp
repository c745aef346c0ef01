#include "base/open_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace mtl {

namespace {

constexpr const char* kShorter =
    " was truncated while it was in use; stop what writes to it, restore it, and start again";

/// Raises the soft limit on open files to the hard limit, because a blend can have hundreds of data sets. Returns true
/// if that changed anything.
bool raise_file_limit() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

OpenFile::OpenFile(const std::string& path) : path_(path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // do not wait for a FIFO's writer
  descriptor_ = Descriptor(::open(path.c_str(), kFlags));
  if (descriptor_ < 0 && errno == EMFILE && raise_file_limit()) descriptor_ = Descriptor(::open(path.c_str(), kFlags));
  if (descriptor_ < 0) fail_errno(path, "open");
}

void OpenFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(Exit::io, path_, ": cannot read: ", std::strerror(errno));
    if (got == 0) fail(Exit::io, path_, kShorter);
    out = out.subspan(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

void OpenFile::check_size(std::uint64_t expected) const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail(Exit::io, path_, ": cannot read: ", std::strerror(errno));
  if (static_cast<std::uint64_t>(info.st_size) < expected) fail(Exit::io, path_, kShorter);
}

}  // namespace mtl
