#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/console.h"
#include "base/error.h"
#include "base/files.h"
#include "base/host_name.h"
#include "base/worker_thread.h"

namespace mtl {

namespace {

constexpr int kTries = 1000;  // each try fails if the lock file is removed or replaced meanwhile
constexpr const char* kOwner = "pid ";
constexpr const char* kBoot = ", boot ";
constexpr const char* kBeat = ", beat ";

std::string content_of(int descriptor) {
  char text[512];
  ssize_t size = ::pread(descriptor, text, sizeof text, 0);
  return std::string(trim(std::string_view(text, std::max<ssize_t>(size, 0))));
}

/// Returns the file's current content. Reopens the file because network file systems may otherwise show old content.
std::string content_of(const std::string& path) {
  return file_exists(path) ? std::string(trim(read_regular_file(path))) : "";
}

/// Returns the text after `mark`, up to the next comma or blank.
std::string field_of(const std::string& content, const std::string& mark) {
  const std::size_t at = content.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + mark.size();
  return content.substr(begin, content.find_first_of(", ", begin) - begin);
}

/// Returns the kernel's boot id. It changes at every boot and is shared by all containers on a machine.
std::string boot_id() {
  const char* path = "/proc/sys/kernel/random/boot_id";
  return file_exists(path) ? std::string(trim(read_file(path))) : "unknown";
}

/// Returns everything before the beat.
std::string owner_of(const std::string& content) { return content.substr(0, content.find(kBeat)); }

/// Throws Error(usage) if another program wrote the file. An empty file counts as a lock, and so does one that begins
/// with a zero byte, because a host crash can leave zeros in a lock file.
void refuse_other_file(const std::string& path, const std::string& content) {
  const std::size_t end = std::min(content.find('\0'), content.size());
  if (end == 0 || starts_with(content, kOwner)) return;
  fail(Exit::usage, path, " is not an mtl lock file, and would be overwritten; rename it, or choose another output");
}

/// Returns true if the process named in a lock file may still be alive even though flock granted us the lock: it may
/// run on another machine, or the file system may not support locks.
bool may_live(const std::string& content, bool has_locks) {
  if (content.empty()) return false;
  if (!has_locks) return true;
  const std::string boot = field_of(content, kBoot), host = field_of(content, " on ");
  return !boot.empty() && boot != boot_id() && host != host_name();
}

/// Returns true if the lock's holder writes a beat within `times.patience`.
bool beats(const std::string& path, const std::string& content, const FileLockTimes& times) {
  const double end = now_seconds() + times.patience;
  while (now_seconds() < end) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(times.beat, times.patience) / 4));
    const std::string now = content_of(path);
    if (now != content && !now.empty()) return true;
  }
  return false;
}

}  // namespace

FileLock::~FileLock() {
  if (!beat_thread_.joinable()) return;
  end_thread(beat_thread_, mutex_, wake_, stopping_);
  if (owner_of(content_of(descriptor_)) == owner_) (void)!::ftruncate(descriptor_, 0);
}

/// Returns false if the file was removed or replaced after we opened it.
bool FileLock::is_current() const {
  struct stat opened {
  }, named{};
  if (::fstat(descriptor_, &opened) != 0) fail_errno(path_, "examine");
  if (::stat(path_.c_str(), &named) != 0) {
    if (errno == ENOENT) return false;
    fail_errno(path_, "examine");
  }
  return opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/// Names this process as the owner in the file and starts the thread that writes the beats.
void FileLock::start_beating(double beat_seconds) {
  owner_ = cat(kOwner, ::getpid(), " on ", host_name(), " since ", timestamp(), kBoot, boot_id());
  if (::ftruncate(descriptor_, 0) != 0 || !write_beat(0)) fail_errno(path_, "write");
  beat_thread_ = worker_thread([this, beat_seconds] {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> pause(beat_seconds);
    for (std::int64_t beat = 1; !wake_.wait_for(lock, pause, [this] { return stopping_; }); ++beat) write_beat(beat);
  });
}

/// Overwrites the previous beat: the length is always the same.
bool FileLock::write_beat(std::int64_t beat) {
  const std::string text = cat(owner_, kBeat, format("%012lld", static_cast<long long>(beat)), "\n");
  return ::pwrite(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

std::unique_ptr<FileLock> FileLock::take(const std::string& path, std::string* owner, const FileLockTimes& times,
                                         std::unique_lock<std::mutex>* no_signal) {
  for (int tries = 0; tries < kTries; ++tries) {
    // Bypasses base/files, because a lock file is not an output and stays open.
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) fail_errno(path, "open");
    std::unique_ptr<FileLock> file(new FileLock(path, descriptor));
    refuse_special_file(path);
    const bool is_granted = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    const bool has_locks = is_granted || (errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK);
    const std::string content = content_of(descriptor);
    *owner = content.substr(0, content.find(kBoot));
    if (!is_granted && has_locks) {
      if (errno != EWOULDBLOCK) fail_errno(path, "lock");
      return nullptr;
    }
    if (!file->is_current()) continue;
    refuse_other_file(path, content);
    if (may_live(content, has_locks)) {
      if (no_signal != nullptr) no_signal->unlock();
      const bool lives = beats(path, content, times);
      if (no_signal != nullptr) no_signal->lock();
      if (lives) return nullptr;
    }
    file->start_beating(times.beat);
    return file;
  }
  fail(Exit::io, path, ": cannot lock this file: other processes keep replacing it");
}

void FileLock::check_held() const {
  const std::string content = content_of(path_);
  if (content.empty() || owner_of(content) == owner_) return;
  fail(Exit::failure, path_, ": another process (", content, ") took this lock ",
       is_current() ? "while this process was suspended or could not reach the file system"
                    : "after the file had been removed or replaced",
       "; stop one of the two");
}

}  // namespace mtl
