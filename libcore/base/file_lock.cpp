#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/console.h"
#include "base/error.h"

namespace mtl {

namespace {

constexpr int kTries = 1000;  // each but the last met a lock file that its holder was removing

std::string content_of(int descriptor) {
  char text[512];
  ssize_t size = ::pread(descriptor, text, sizeof text, 0);
  return std::string(trim(std::string_view(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)))));
}

}  // namespace

std::optional<FileLock> FileLock::take(const std::string& path, std::string* owner) {
  for (int tries = 0; tries < kTries; ++tries) {
    // A lock is not an output and stays open: not through base/files.
    FileLock lock(path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (lock.descriptor_ < 0) fail_errno(path, "open");
    if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail_errno(path, "lock");
      *owner = content_of(lock.descriptor_);
      return std::nullopt;
    }
    if (!lock.is_current()) continue;
    lock.write_owner();
    return lock;
  }
  fail(Exit::io, path, ": cannot lock this file: other processes keep replacing it");
}

/// False when the file was removed or replaced between opening and locking it.
bool FileLock::is_current() const {
  struct stat mine {
  }, named{};
  if (::fstat(descriptor_, &mine) != 0) fail_errno(path_, "examine");
  if (::stat(path_.c_str(), &named) != 0) {
    if (errno == ENOENT) return false;
    fail_errno(path_, "examine");
  }
  return mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

void FileLock::write_owner() const {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string owner = cat("pid ", ::getpid(), " on ", host, " since ", timestamp(), "\n");
  if (::ftruncate(descriptor_, 0) != 0 ||
      ::pwrite(descriptor_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size()))
    fail_errno(path_, "write");
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

}  // namespace mtl
