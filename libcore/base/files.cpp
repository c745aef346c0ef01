#include "base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "base/fault_plan.h"
#include "base/interrupt_guard.h"
#include "base/lfs_pointer.h"
#include "base/mapped_faults.h"
#include "base/mapped_pages.h"
#include "base/move_folder.h"
#include "base/printable.h"
#include "base/write_activity.h"

namespace mtl {

namespace {

/// Calls renameat2(2) with RENAME_EXCHANGE. The faults `no-exchange` and `no-move` simulate file systems without it.
int exchange_names(const char* a, const char* b) {
  const bool cannot = has_fault("no-exchange"), cannot_move = has_fault("no-move");
  if (!cannot && !cannot_move) return ::renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
  errno = cannot_move ? EXDEV : EINVAL;
  return -1;
}

/// Calls rename(2). The fault `no-move` simulates overlayfs, which renames new folders only.
int rename_name(const std::string& from, const std::string& to) {
  const bool is_new = fs::path(from).filename().string().find(".tmp.") != std::string::npos;
  if (!has_fault("no-move") || is_new || !is_directory(from)) return ::rename(from.c_str(), to.c_str());
  errno = EXDEV;
  return -1;
}

/// Maximum bytes per write(2), so that no call takes long while the storage is healthy, and the bytes are still in the
/// cache when they are hashed.
constexpr std::size_t kMaxPerCall = 1 << 20;
/// Start writing back to disk each time this many bytes have been added.
constexpr std::uint64_t kWriteBack = 256 << 20;

/// Calls write(2). If a fault is due, the call fails, is interrupted, or writes only half the bytes.
ssize_t write_some(int descriptor, const char* data, std::size_t bytes) {
  std::string kind;
  bytes = std::min(bytes, kMaxPerCall);
  if (fault_now(&kind)) {
    if (kind != "short") return -1;
    bytes = (bytes + 1) / 2;
  }
  return ::write(descriptor, data, bytes);
}

bool is_full(int code) { return code == ENOSPC || code == EDQUOT; }

/// Like fail_errno(), but throws NoSpaceError if the disk is full.
[[noreturn]] void fail_write(const std::string& path, const std::string& action) {
  if (is_full(errno))
    throw NoSpaceError(cat(path, ": cannot ", action, ": ", std::strerror(errno), full_disk_remedy(path)));
  fail_errno(path, action);
}

/// Says that a FIFO keeps the program waiting, perhaps for ever. `does`: what no other process does.
void say_waiting(const std::string& path, const char* does) {
  std::fprintf(stderr, "%s is a FIFO that no process %s yet; waiting for one\n", printable_text(path).c_str(), does);
}

constexpr int kQuietWaitMs = 1000;  // before say_waiting(), because the other process may only be slow

/// Opens or creates a file to write, without waiting. Returns -1, with errno, on failure.
Descriptor open_or_create(const std::string& path, int flags) {
  const auto allowed = InterruptGuard::allow_creation();
  return Descriptor(::open(path.c_str(), flags | O_CREAT | O_NONBLOCK, 0644));
}

/// Opens a file to write. Waits for a FIFO's reader.
Descriptor open_to_write(const std::string& path, int flags) {
  Descriptor file;
  for (int waited = 0; waited < kQuietWaitMs; waited += 10) {
    file = open_or_create(path, flags);
    if (file >= 0) break;
    const int code = errno;
    struct stat info {};
    const bool is_fifo = code == ENXIO && ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
    errno = code;
    if (!is_fifo) fail_errno(path, "create");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (file < 0) {
    say_waiting(path, "reads");
    file = Descriptor(::open(path.c_str(), flags));
    if (file < 0) fail_errno(path, "create");
  }
  ::fcntl(file, F_SETFL, flags & O_APPEND);  // without O_NONBLOCK
  return file;
}

}  // namespace

std::string full_disk_remedy(const std::string& path) {
  struct statvfs disk {};
  std::string at = path;
  while (::statvfs(at.c_str(), &disk) != 0 && at != "." && at != "/") at = parent_folder(at);
  return disk.f_files > 0 && disk.f_favail == 0
             ? "; no inodes are left on that disk (df -i), although there may be space: remove files"
             : "; free some space on that disk";
}

bool write_back(int descriptor, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t boundary = end / kWriteBack * kWriteBack;
  if (boundary <= begin) return true;
  auto range = [&](std::uint64_t from, std::uint64_t to, unsigned flags) {
    return ::sync_file_range(descriptor, static_cast<off_t>(from), static_cast<off_t>(to - from), flags) == 0 ||
           (errno != EIO && errno != ENOSPC && errno != EDQUOT);  // some files do not support this call
  };
  const std::uint64_t last = boundary - kWriteBack;
  constexpr unsigned kWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  return range(last, boundary, SYNC_FILE_RANGE_WRITE) && (last == 0 || range(last - kWriteBack, last, kWait));
}

OutputFile::OutputFile(std::string path, bool append) : path_(std::move(path)) {
  WriteCall call(path_);
  int flags = O_WRONLY | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
  if (fault_now()) fail_errno(path_, "create");
  descriptor_ = open_to_write(path_, flags);
  struct stat info {};
  if (append && ::fstat(descriptor_, &info) == 0) start_ = static_cast<std::uint64_t>(info.st_size);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  std::size_t left = bytes;
  const auto fail_after_writing = [&] { fail_write(path_, cat("write after ", bytes_ + (bytes - left), " bytes")); };
  while (left > 0) {
    WriteCall call(path_);
    ssize_t written = write_some(descriptor_, at, left);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_after_writing();
    }
    call.wrote(static_cast<std::uint64_t>(written));
    hasher_.update(at, written);  // while it is in the cache
    at += written;
    left -= written;
    const std::uint64_t end = start_ + bytes_ + (bytes - left);
    if (!write_back(descriptor_, end - static_cast<std::uint64_t>(written), end)) fail_after_writing();
  }
  bytes_ += bytes;
}

void OutputFile::sync() {
  WriteCall call(path_);
  if (!fault_now() && ::fsync(descriptor_) == 0) return;
  fail_write(path_, "sync to disk");
}

void OutputFile::close() {
  WriteCall call(path_);
  const int descriptor = descriptor_.release();
  if (descriptor >= 0 && ::close(descriptor) != 0) fail_errno(path_, "close");
}

namespace {

bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

}  // namespace

std::string follow_link(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
}

std::string AtomicFile::temporary_name(const std::string& path) { return cat(follow_link(path), ".tmp.", ::getpid()); }

namespace {

const std::string& registered(const std::string& path, InterruptGuard* guard) {
  if (guard != nullptr) guard->remove_on_signal(AtomicFile::temporary_name(path));
  return path;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, InterruptGuard* guard)
    : path_(follow_link(registered(path, guard))),  // registered before the file is created
      is_special_(mtl::is_special(path_)),
      guard_(guard),
      out_(is_special_ ? path_ : temporary_name(path_)) {}

AtomicFile::~AtomicFile() {
  if (!committed_ && !is_special_ && !path_.empty()) ::unlink(out_.path().c_str());
}

void AtomicFile::seal() {
  if (!is_special_) out_.sync();
  out_.close();
  sealed_ = true;
}

void AtomicFile::commit() {
  if (!sealed_) seal();
  if (is_special_) return;
  std::unique_lock<std::mutex> no_signal;
  if (guard_ != nullptr) no_signal = guard_->keep_files();
  publish(out_.path(), path_);
  committed_ = true;
}

void write_file_atomic(const std::string& path, std::string_view content, InterruptGuard* guard) {
  if (guard == nullptr) refuse_special_file(path);
  AtomicFile file(path, guard);
  file.write(content);
  file.commit();
}

void rename_path(const std::string& from, const std::string& to) {
  WriteCall call(to);
  if (!fault_now() && rename_name(from, to) == 0) return;
  if (errno != EXDEV || !is_directory(from)) fail_errno(from, "rename to " + to);
  move_folder_by_copy(from, to);
}

namespace {

/// Exchanges two names.
void exchange_paths(const std::string& a, const std::string& b) {
  WriteCall call(b);
  if (fault_now()) fail_errno(a, "exchange with " + b);
  if (exchange_names(a.c_str(), b.c_str()) == 0) return;
  if (errno != EINVAL && errno != ENOSYS && errno != EXDEV) fail_errno(a, "exchange with " + b);
  // Not named like a temporary, because this file is the only copy of the old content until `b` exists again.
  std::string aside = cat(b, ".old");
  rename_path(b, aside);
  rename_path(a, b);
  sync_directory(parent_folder(b));  // `a` may be removed as a leftover
  rename_path(aside, a);
}

}  // namespace

void publish(const std::string& temporary, const std::string& path, bool exchange) {
  exchange ? exchange_paths(temporary, path) : rename_path(temporary, path);
  sync_directory(parent_folder(path));
}

void sync_directory(const std::string& path) {
  WriteCall call(path);
  std::string folder = path.empty() ? "." : path;
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor < 0) fail_errno(folder, "open");
  const bool failed = fault_now() || ::fsync(descriptor) != 0;
  if (failed && errno != EINVAL) fail_errno(folder, "sync to disk");  // EINVAL: this file system cannot sync folders
}

void make_directories(const std::string& path) {
  if (path.empty()) return;
  WriteCall call(path);
  if (fault_now()) fail_errno(path, "create the folder");
  std::error_code error;
  {
    const auto allowed = InterruptGuard::allow_creation();
    fs::create_directories(path, error);
  }
  if (error == std::errc::file_exists && fs::is_symlink(path) && !file_exists(path)) {
    fail(Exit::io, path, " is a symbolic link to ", fs::read_symlink(path).string(),
         ", which does not exist; create that folder, or choose another one");
  }
  if (error)
    fail(Exit::io, path, ": cannot create the folder: ", error.message(),
         is_full(error.value()) ? full_disk_remedy(path) : "");
}

void make_output_directories(const std::string& path) {
  std::vector<std::string> changed;
  for (fs::path made = path; !made.empty() && !file_exists(made.string()); made = made.parent_path())
    changed.push_back(parent_folder(made.string()));
  make_directories(path);
  for (const std::string& folder : changed) sync_directory(folder);
}

std::string parent_folder(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void remove_tree(const std::string& path) {
  WriteCall call(path);
  if (fault_now()) fail_errno(path, "remove");
  std::error_code error;
  if (has_fault("no-remove") && file_exists(path)) {
    error = std::make_error_code(std::errc::operation_not_permitted);
  } else {
    fs::remove_all(path, error);
  }
  if (error) fail(Exit::io, path, ": cannot remove: ", error.message());
}

namespace {

/// Does not wait for a FIFO's writer.
Descriptor open_to_read(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file < 0) fail_errno(path, "open");
  return file;
}

}  // namespace

std::string read_descriptor(int descriptor, const std::string& name) {
  constexpr off_t kMaxReserved = 1 << 30;          // capped, because a sparse file can claim any size
  constexpr std::size_t kMaxStreamed = 256 << 20;  // from a device or pipe, which may never end
  std::string content;
  struct stat info {};
  const bool is_regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  if (is_regular) content.reserve(std::min(info.st_size, kMaxReserved));
  char buffer[1 << 16];
  while (true) {
    ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(name, "read");
    if (got == 0) break;
    content.append(buffer, got);
    if (!is_regular && content.size() > kMaxStreamed)
      fail_at(Exit::io, name, "has more than ", human_bytes(kMaxStreamed),
              ", the limit for a device or pipe; use a regular file");
  }
  refuse_lfs_pointer(name, content);
  return content;
}

Descriptor open_or_wait(const std::string& path) {
  Descriptor file = open_to_read(path);
  struct stat info {};
  pollfd ready{file, POLLIN, 0};
  if (::fstat(file, &info) == 0 && S_ISFIFO(info.st_mode) && ::poll(&ready, 1, kQuietWaitMs) == 0) {
    say_waiting(path, "writes to");
    while (::poll(&ready, 1, -1) < 0 && errno == EINTR) {
    }
  }
  ::fcntl(file, F_SETFL, 0);  // without O_NONBLOCK
  return file;
}

std::string read_file(const std::string& path) { return read_descriptor(open_or_wait(path), path); }

std::string read_regular_file(const std::string& path) {
  refuse_special_file(path);
  return read_descriptor(open_to_read(path), path);
}

void refuse_special_file(const std::string& path) {
  if (is_special(path)) fail(Exit::io, path, " is not a regular file; replace it with one");
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_regular_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string nearest_existing(const std::string& path) {
  fs::path at = fs::absolute(path).lexically_normal();
  while (!file_exists(at.string()) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

std::vector<std::string> list_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::uint64_t file_size(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) fail_errno(path, "open");
  return static_cast<std::uint64_t>(info.st_size);
}

std::uint64_t hash_file(const std::string& path) { return hash_mapped(MappedFile(path)); }

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file = open_to_read(path);
  struct stat info {};
  if (::fstat(file, &info) != 0) fail_errno(path, "read");
  if (S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    fail_errno(path, "read");
  }
  if (!S_ISREG(info.st_mode))
    fail(Exit::io, path, ": only a regular file can be mapped into memory; copy its content into one");
  const std::size_t size = info.st_size;
  if (size == 0) return;
  char head[kLfsPointerBytes];
  const ssize_t got = ::pread(file, head, sizeof head, 0);
  if (got > 0) refuse_lfs_pointer(path, {head, static_cast<std::size_t>(got)});
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (data == MAP_FAILED) fail_errno(path, "map into memory");
  data_ = {data, Unmap{size}};
  add_mapping(data, size, path_);
}

void MappedFile::Unmap::operator()(void* data) const {
  remove_mapping(data);
  ::munmap(data, size);
}

void MappedFile::will_need(std::size_t offset, std::size_t bytes) const { advise(offset, bytes, MADV_WILLNEED); }

void MappedFile::release(std::size_t offset, std::size_t bytes) const { advise(offset, bytes, MADV_DONTNEED); }

void MappedFile::advise(std::size_t offset, std::size_t bytes, int advice) const {
  if (bytes == 0 || offset + bytes > size()) return;
  const std::size_t page = ::sysconf(_SC_PAGESIZE);
  const std::size_t begin = offset / page * page;
  ::madvise(static_cast<char*>(data_.get()) + begin, offset + bytes - begin, advice);
}

}  // namespace mtl
