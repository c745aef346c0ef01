#include "tests/crash/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "base/files.h"

namespace mtl::test {

namespace {

std::mutex mutex;  // held during a call, so that calls are recorded in their order

struct State {
  std::string root;
  dev_t device{};
  std::set<std::uint64_t> known;  // nodes in the folder, and those that were there
  Record record;
};

State* active = nullptr;

/// While this exists, no other call is recorded or changes the folder.
class Hold {
 public:
  Hold() {
    if (active != nullptr) lock_ = std::unique_lock(mutex);
  }
  bool is_active() const { return lock_.owns_lock() && active != nullptr; }
  /// Returns the number of an open file or folder that is recorded, or 0.
  std::uint64_t node(int descriptor) const {
    struct stat info {};
    if (!is_active() || ::fstat(descriptor, &info) != 0) return 0;
    return info.st_dev == active->device && active->known.contains(info.st_ino) ? info.st_ino : 0;
  }
  /// Returns the recorded folder that contains `path` and the name in it; the folder is 0 if it is not recorded.
  std::pair<std::uint64_t, std::string> entry(int at, const char* path) const {
    if (!is_active()) return {};
    fs::path given(path);
    if (!given.has_filename()) given = given.parent_path();
    const std::string above = given.has_parent_path() ? given.parent_path().string() : ".";
    struct stat info {};
    if (::fstatat(at, above.c_str(), &info, 0) != 0 || info.st_dev != active->device) return {};
    return {active->known.contains(info.st_ino) ? info.st_ino : 0, given.filename().string()};
  }
  void add(Call call) const { active->record.calls.push_back(std::move(call)); }
  void add_created(std::uint64_t folder, std::string name, std::uint64_t node, bool is_folder) const {
    active->known.insert(node);
    add({.kind = Call::Kind::create, .node = node, .folder = folder, .name = std::move(name), .is_folder = is_folder});
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

std::uint64_t size_of(int descriptor) {
  struct stat info {};
  return ::fstat(descriptor, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

int open_recorded(int at, const char* path, int flags, mode_t mode) {
  const Hold hold;
  const auto [folder, name] = hold.entry(at, path);
  struct stat info {};
  const bool is_new = folder != 0 && (flags & O_CREAT) != 0 && ::fstatat(at, path, &info, AT_SYMLINK_NOFOLLOW) != 0;
  const int file = static_cast<int>(::syscall(SYS_openat, at, path, flags, mode));
  if (file < 0 || folder == 0 || ::fstat(file, &info) != 0) return file;
  if (is_new || (flags & O_TMPFILE) == O_TMPFILE) {
    hold.add_created(is_new ? folder : 0, is_new ? name : "", info.st_ino, false);
  } else if ((flags & O_TRUNC) != 0 && hold.node(file) != 0) {
    hold.add({.kind = Call::Kind::truncate, .node = info.st_ino});
  }
  return file;
}

/// Writes through `call`, at the file's position if `offset` is negative.
template <class Write>
ssize_t write_recorded(int file, off_t offset, const Write& call, const auto& content) {
  const Hold hold;
  const std::uint64_t node = hold.node(file);
  const bool appends = node != 0 && offset < 0 && (::fcntl(file, F_GETFL) & O_APPEND) != 0;
  if (node != 0 && offset < 0) offset = appends ? static_cast<off_t>(size_of(file)) : ::lseek(file, 0, SEEK_CUR);
  const ssize_t done = call();
  if (node != 0 && done > 0)
    hold.add({.kind = Call::Kind::write,
              .node = node,
              .offset = static_cast<std::uint64_t>(offset),
              .data = content().substr(0, static_cast<std::size_t>(done))});
  return done;
}

int sync_recorded(int file) {
  const Hold hold;
  if (const std::uint64_t node = hold.node(file); node != 0) {
    std::error_code ignored;
    const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(file), ignored);
    hold.add(
        {.kind = Call::Kind::sync, .node = node, .path = path.lexically_relative(active->root).lexically_normal()});
  }
  return 0;
}

int rename_recorded(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  const Hold hold;
  const auto [folder, name] = hold.entry(from_at, from);
  const auto [to_folder, to_name] = hold.entry(to_at, to);
  const int result = static_cast<int>(::syscall(SYS_renameat2, from_at, from, to_at, to, flags));
  if (result == 0 && folder != 0)
    hold.add({.kind = (flags & RENAME_EXCHANGE) != 0 ? Call::Kind::exchange : Call::Kind::rename,
              .folder = folder,
              .to_folder = to_folder,
              .name = name,
              .to_name = to_name});
  return result;
}

int unlink_recorded(int at, const char* path, int flags) {
  const Hold hold;
  const auto [folder, name] = hold.entry(at, path);
  const int result = static_cast<int>(::syscall(SYS_unlinkat, at, path, flags));
  if (result == 0 && folder != 0) hold.add({.kind = Call::Kind::remove, .folder = folder, .name = name});
  return result;
}

int mkdir_recorded(int at, const char* path, mode_t mode) {
  const Hold hold;
  const auto [folder, name] = hold.entry(at, path);
  const int result = static_cast<int>(::syscall(SYS_mkdirat, at, path, mode));
  struct stat info {};
  if (result == 0 && folder != 0 && ::fstatat(at, path, &info, 0) == 0)
    hold.add_created(folder, name, info.st_ino, true);
  return result;
}

std::string joined(const iovec* parts, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return out;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

struct Recorder::Impl {
  State state;
};

Recorder::Recorder(const std::string& folder) : impl_(std::make_unique<Impl>()) {
  State& state = impl_->state;
  state.root = fs::canonical(folder).string();
  struct stat info {};
  require(::stat(state.root.c_str(), &info) == 0, "cannot examine ", folder);
  state.device = info.st_dev;
  state.record.before.push_back(
      {.node = info.st_ino, .folder = info.st_ino, .name = "", .data = "", .is_folder = true});
  for (const auto& entry : fs::recursive_directory_iterator(state.root)) {
    struct stat self {
    }, above{};
    const std::string path = entry.path().string();
    require(::stat(path.c_str(), &self) == 0 && ::stat(parent_folder(path).c_str(), &above) == 0, path);
    state.record.before.push_back({.node = self.st_ino,
                                   .folder = above.st_ino,
                                   .name = entry.path().filename().string(),
                                   .data = entry.is_directory() ? "" : read_file(path),
                                   .is_folder = entry.is_directory()});
  }
  for (const InitialEntry& entry : state.record.before) state.known.insert(entry.node);
  const std::lock_guard lock(mutex);
  active = &state;
}

Recorder::~Recorder() {
  const std::lock_guard lock(mutex);
  active = nullptr;
}

void Recorder::mark(std::int64_t progress) {
  const std::lock_guard lock(mutex);
  active->record.calls.push_back({.kind = Call::Kind::mark, .offset = static_cast<std::uint64_t>(progress)});
}

Record Recorder::take() {
  const std::lock_guard lock(mutex);
  return std::move(impl_->state.record);
}

}  // namespace mtl::test

using namespace mtl::test;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_recorded(AT_FDCWD, path, flags, mode);
}
int openat(int at, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_recorded(at, path, flags, mode);
}
int creat(const char* path, mode_t mode) { return open_recorded(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
ssize_t write(int file, const void* data, std::size_t bytes) {
  return write_recorded(
      file, -1, [&] { return ::syscall(SYS_write, file, data, bytes); },
      [&] { return std::string(static_cast<const char*>(data), bytes); });
}
ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) {
  return write_recorded(
      file, offset, [&] { return ::syscall(SYS_pwrite64, file, data, bytes, offset); },
      [&] { return std::string(static_cast<const char*>(data), bytes); });
}
ssize_t writev(int file, const iovec* parts, int count) {
  return write_recorded(
      file, -1, [&] { return ::syscall(SYS_writev, file, parts, count); }, [&] { return joined(parts, count); });
}
int ftruncate(int file, off_t size) noexcept {
  const Hold hold;
  const std::uint64_t node = hold.node(file);
  const int result = static_cast<int>(::syscall(SYS_ftruncate, file, size));
  if (result == 0 && node != 0)
    hold.add({.kind = Call::Kind::truncate, .node = node, .offset = static_cast<std::uint64_t>(size)});
  return result;
}
int fsync(int file) { return sync_recorded(file); }
int fdatasync(int file) { return sync_recorded(file); }
// sync_file_range() is not replaced, because it makes nothing durable: neither sizes nor the disk's own cache.
int rename(const char* from, const char* to) noexcept { return rename_recorded(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  return rename_recorded(from_at, from, to_at, to, flags);
}
int unlink(const char* path) noexcept { return unlink_recorded(AT_FDCWD, path, 0); }
int unlinkat(int at, const char* path, int flags) noexcept { return unlink_recorded(at, path, flags); }
int rmdir(const char* path) noexcept { return unlink_recorded(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  struct stat info {};
  const bool is_folder = ::lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
  return unlink_recorded(AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}
int mkdir(const char* path, mode_t mode) noexcept { return mkdir_recorded(AT_FDCWD, path, mode); }
int mkdirat(int at, const char* path, mode_t mode) noexcept { return mkdir_recorded(at, path, mode); }
void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (file >= 0 && (protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0) {
    const Hold hold;
    if (const std::uint64_t node = hold.node(file); node != 0) hold.add({.kind = Call::Kind::mapped, .node = node});
  }
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}

}  // extern "C"
