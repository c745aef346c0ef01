#include "text/stored_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace mtl {

StoredFile::StoredFile(const std::string& path) : buffer_(1 << 18) {
  stored_.path = path;
  descriptor_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail_errno(path, "open");
}

StoredFile::~StoredFile() {
  if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
}

bool StoredFile::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  ssize_t got;
  do {
    got = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
  } while (got < 0 && errno == EINTR);
  if (got < 0) fail_errno(name(), "read");
  hasher_.update(buffer_.data() + end_, static_cast<std::size_t>(got));
  stored_.bytes += static_cast<std::uint64_t>(got);
  end_ += static_cast<std::size_t>(got);
  return got > 0;
}

bool StoredFile::fill_to(std::size_t bytes) {
  while (available().size() < bytes) {
    if (!fill()) return false;
  }
  return true;
}

bool StoredFile::is_regular() const {
  struct stat info {};
  return ::fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode);
}

StoredInput StoredFile::stored() const {
  StoredInput out = stored_;
  out.hash = hasher_.digest();
  return out;
}

}  // namespace mtl
