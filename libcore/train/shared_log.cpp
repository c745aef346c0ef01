#include "train/shared_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/console.h"
#include "base/descriptor.h"
#include "base/output_lock.h"

namespace mtl {

namespace {

/// Returns false if the file was replaced between open() and flock().
bool is_named(int file, const std::string& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

/// Locks the file that is called `path` at that time, and returns the descriptor that holds the lock; none if there is
/// no such regular file, or if it cannot be locked.
Descriptor lock_log(const std::string& path) {
  for (const double end = now_seconds() + SharedLog::kLockSeconds; now_seconds() < end;) {
    if (!is_regular_file(path)) break;  // opening a FIFO would make us its reader
    // Bypasses base/files, because this descriptor is not for writing.
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file < 0) break;
    const bool is_held = ::flock(file, LOCK_EX | LOCK_NB) == 0;
    if (!is_held && errno != EWOULDBLOCK && errno != EINTR) break;
    if (is_held && is_named(file, path)) return file;
    if (!is_held) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return Descriptor();
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
  const Descriptor lock = lock_log(path_);
  std::error_code ignored;  // what a run that was killed while it rewound the log has left does no harm
  for (const std::string& path : find_leftovers({follow_link(path_)})) fs::remove(path, ignored);
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
  const Descriptor lock = lock_log(path_);
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
