#include "train/log_sink.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/count_of.h"

namespace mtl {

void LogSink::attempt(std::int64_t count, const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (error.code() != Exit::io) throw;
    lost_ += count;
    if (!reason_.empty()) return;
    reason_ = error.what();
    console_.warn(cat(reason_, "; training continues, and every further report tries again"));
  }
}

void LogSink::report_lost() {
  if (lost_ == reported_) return;
  console_.warn(cat(name_, ": ", count_of(lost_, unit_), " could not be written (", reason_, ")"));
  reported_ = lost_;
}

LogFile::LogFile(const std::string& path) : file_(path, true) { is_regular_ = is_regular_file(path); }

void LogFile::write(std::string_view record) {
  std::error_code unknown;
  const std::uintmax_t size = is_regular_ ? fs::file_size(path(), unknown) : 0;  // another run may have appended
  try {
    file_.write(record);
  } catch (const Error&) {
    std::error_code ignored;  // we report the first error
    if (is_regular_ && !unknown) fs::resize_file(path(), size, ignored);
    throw;
  }
}

void LogFile::sync() {
  if (is_regular_) file_.sync();
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void write_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(written);
    } else if (errno == EAGAIN) {  // another process made the pipe non-blocking
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      (void)!::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      fail_errno("standard output", "write");
    }
  }
}

}  // namespace mtl
