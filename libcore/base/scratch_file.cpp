#include "base/scratch_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/fault_plan.h"
#include "base/files.h"
#include "base/write_activity.h"

namespace mtl {

namespace {

/// The most bytes that one read or write leaves in the page cache at a time.
constexpr std::uint64_t kPart = 8 << 20;

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Opens a new file without a name.
Descriptor open_nameless(const std::string& folder) {
  if (fault_now()) return Descriptor();
  Descriptor file(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  // EISDIR: a kernel or a file system without O_TMPFILE.
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = folder + "/mtl-XXXXXX";
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file >= 0) ::unlink(name.c_str());
  return file;
}

const char* creation_remedy(int code) {
  if (code == ENOENT || code == ENOTDIR) return "; create the folder, or choose another one";
  return "; choose a folder in which files can be created";
}

int reserve(int file, std::uint64_t bytes) {
  if (fault_now()) return errno;
  int code = EINTR;
  while (code == EINTR) code = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  return code;
}

}  // namespace

bool is_in_memory(const std::string& folder) {
  struct statfs info {};
  return ::statfs(folder.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

ScratchFile::ScratchFile(std::string label, const std::string& folder, std::uint64_t bytes) : label_(std::move(label)) {
  const WriteCall call(folder);
  descriptor_ = open_nameless(folder);
  if (descriptor_ < 0) {
    const int code = errno;
    fail(Exit::io, label_, ": cannot create a file there: ", std::strerror(code), creation_remedy(code));
  }
  if (bytes == 0) return;
  if (const int code = reserve(descriptor_, bytes); code != 0) fail_with(code, cat("reserve ", human_bytes(bytes)));
  // Otherwise the kernel reads on beyond the end of a range.
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
}

void ScratchFile::fail_with(int code, const std::string& action) const {
  const std::string message = cat(label_, ": cannot ", action, ": ", std::strerror(code));
  if (code == ENOSPC || code == EDQUOT)
    throw NoSpaceError(message + "; free some space on that disk, or choose a folder on another one");
  if (code == EFBIG) fail(Exit::io, message, "; raise the limit of file sizes (ulimit -f)");
  fail(Exit::io, message, "; check the disk, or choose a folder on another one");
}

void ScratchFile::fail_lost(int code) {
  int none = 0;
  lost_.compare_exchange_strong(none, code);
  fail_with(code, "write to a file");
}

void ScratchFile::read_ahead(std::uint64_t offset, std::uint64_t bytes) const {
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

/// Drops the pages that contain a range from the page cache, except those not yet written back.
void ScratchFile::drop(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t begin = offset / page_bytes() * page_bytes();
  const std::uint64_t end = (offset + bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  ::posix_fadvise(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(end - begin), POSIX_FADV_DONTNEED);
}

void ScratchFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (const int code = lost_; code != 0) fail_with(code, "write to a file");
  while (!out.empty()) {
    const std::uint64_t part = std::min<std::uint64_t>(out.size(), kPart);
    read_ahead(offset, part);
    const ssize_t got = ::pread(descriptor_, out.data(), part, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with(errno, "read a file back");
    if (got == 0) fail(Exit::io, label_, ": a file of this run was truncated; start again");
    drop(offset, static_cast<std::uint64_t>(got));
    out = out.subspan(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

void ScratchFile::write(std::uint64_t offset, std::span<const std::byte> from) {
  const WriteCall call(label_);
  const std::uint64_t begin = offset;
  while (!from.empty()) {
    std::uint64_t part = std::min<std::uint64_t>(from.size(), kPart);
    std::string kind;
    ssize_t written = -1;
    if (!fault_now(&kind) || kind == "short") {
      if (kind == "short") part = (part + 1) / 2;
      written = ::pwrite(descriptor_, from.data(), part, static_cast<off_t>(offset));
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_lost(errno);
    ::sync_file_range(descriptor_, static_cast<off_t>(offset), written, SYNC_FILE_RANGE_WRITE);
    if (offset >= begin + kPart) settle(offset - kPart, kPart);
    from = from.subspan(written);
    offset += static_cast<std::uint64_t>(written);
  }
}

void ScratchFile::settle(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  const WriteCall call(label_);
  constexpr unsigned kWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  const std::uint64_t begin = offset / page_bytes() * page_bytes();
  std::string kind;
  const bool failed = fault_now(&kind) ? kind != "short"
                                       : ::sync_file_range(descriptor_, static_cast<off_t>(begin),
                                                           static_cast<off_t>(offset + bytes - begin), kWait) != 0;
  if (failed && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) fail_lost(errno);  // others: not supported
  drop(offset, bytes);
}

}  // namespace mtl
