#include "cli/output_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files.h"

namespace mtl {

OutputLock::OutputLock(const std::string& prefix) : path_(prefix + ".lock") {
  while (!take(prefix)) {
  }
}

/// False when the file went away between opening and locking it: its last holder has just finished.
bool OutputLock::take(const std::string& prefix) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    std::string folder = fs::path(prefix).parent_path().string();
    fail(Exit::io, folder.empty() ? "." : folder, ": cannot create files here: ", std::strerror(errno),
         "; choose another --output-prefix");
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(descriptor_, -1));
    fail(Exit::failure, prefix, ": another run writes there (", trim(read_file(path_)),
         "); wait for it, end it, or choose another --output-prefix");
  }
  struct stat mine {
  }, current{};
  if (::fstat(descriptor_, &mine) != 0 || ::stat(path_.c_str(), &current) != 0 || mine.st_ino != current.st_ino) {
    ::close(std::exchange(descriptor_, -1));
    return false;
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string owner = cat("pid ", ::getpid(), " on ", host, " since ", timestamp(), "\n");
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, owner.data(), owner.size(), 0) < 0) {
    // What it says is for people only.
  }
  return true;
}

void OutputLock::release() {
  if (descriptor_ < 0) return;
  ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace mtl
