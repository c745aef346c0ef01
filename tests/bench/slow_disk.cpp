// A library that share/bench/async_save.sh preloads: regular files behave as on a disk that takes MTL_SLOW_DISK bytes a
// second. A write waits until the disk would have taken it; syncs then have nothing left to wait for, and do nothing,
// so that the figures do not depend on the machine's disk.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

/// Returns when the disk has taken `bytes` more bytes.
Clock::time_point taken(std::size_t bytes) {
  static const char* const rate = std::getenv("MTL_SLOW_DISK");
  static std::mutex mutex;
  static Clock::time_point idle_from;
  if (rate == nullptr) return {};
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) / std::atof(rate));
  std::lock_guard lock(mutex);
  idle_from = std::max(idle_from, Clock::now()) + std::chrono::duration_cast<Clock::duration>(seconds);
  return idle_from;
}

bool is_regular(int descriptor) {
  struct stat file {};
  return ::fstat(descriptor, &file) == 0 && S_ISREG(file.st_mode);
}

}  // namespace

extern "C" ssize_t write(int descriptor, const void* data, std::size_t bytes) {
  static const auto next = reinterpret_cast<decltype(&write)>(::dlsym(RTLD_NEXT, "write"));
  if (bytes == 0 || !is_regular(descriptor)) return next(descriptor, data, bytes);
  const Clock::time_point end = taken(bytes);
  const ssize_t written = next(descriptor, data, bytes);
  std::this_thread::sleep_until(end);
  return written;
}

extern "C" int fsync(int) { return 0; }
extern "C" int sync_file_range(int, off_t, off_t, unsigned) noexcept { return 0; }
