#include "train/shared_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/console.h"
#include "base/output_lock.h"

namespace mtl {

/// Holds the lock on the file that is called `path` at that time. Holds nothing if there is no such regular file, or if
/// it cannot be locked.
class SharedLog::Lock {
 public:
  explicit Lock(const std::string& path) {
    for (const double end = now_seconds() + kLockSeconds; now_seconds() < end;) {
      if (!is_regular_file(path)) return;  // opening a FIFO would make us its reader
      // Bypasses base/files, because this descriptor is not for writing.
      descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor_ < 0) return;
      const bool is_held = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
      if (!is_held && errno != EWOULDBLOCK && errno != EINTR) return;
      if (is_held && is_named(path)) return;
      release();
      if (!is_held) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~Lock() { release(); }
  Lock(const Lock&) = delete;

 private:
  /// Returns false if the file was replaced between open() and flock().
  bool is_named(const std::string& path) const {
    struct stat opened {
    }, named{};
    return ::fstat(descriptor_, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
  }
  void release() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  int descriptor_ = -1;
};

namespace {
/// Removes LOG.tmp.PID, which a run that was killed while it rewound the log has left. Must hold the lock.
void remove_leftovers(const std::string& log) {
  const std::string own = AtomicFile::temporary_name(log);  // beside the file that a link leads to
  const std::string prefix = fs::path(own.substr(0, own.rfind('.') + 1)).filename().string();
  std::error_code error, ignored;  // the log works without this
  for (fs::directory_iterator at(parent_folder(own), error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (starts_with(name, prefix) && is_process_id(name.substr(prefix.size()))) fs::remove(at->path(), ignored);
  }
}
}  // namespace

SharedLog::SharedLog(std::string path, const LogStart& start, std::string_view start_line) : path_(std::move(path)) {
  if (is_regular_file(path_)) {
    rewind(start);
  } else if (!file_exists(path_)) {
    make_directories(fs::path(path_).parent_path().string());
  }
  write(start_line, "");
}

void SharedLog::rewind(const LogStart& start) {
  const Lock lock(path_);
  remove_leftovers(path_);
  const std::string text = read_file(path_), kept = rewind_log(text, start, path_);
  if (kept != text) write_file_atomic(path_, kept);
}

/// Returns zeros if there is no such file.
SharedLog::FileState SharedLog::current_state() const {
  struct stat file {};
  if (::stat(path_.c_str(), &file) != 0) return {};
  return {file.st_dev, file.st_ino, static_cast<std::uint64_t>(file.st_size)};
}

void SharedLog::write(std::string_view line, std::string_view continuation) {
  const Lock lock(path_);
  const FileState before = current_state();
  if (!file_ || before.inode != written_.inode || before.device != written_.device) {
    file_.reset();
    file_.emplace(path_);
  }
  file_->write(before == written_ ? std::string(line) : cat(continuation, line));
  written_ = current_state();
}

void SharedLog::sync() {
  if (file_) file_->sync();
}

}  // namespace mtl
