#include "comm/launcher_end.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <string>

#include "base/error.h"
#include "base/files.h"

namespace mtl {

namespace {

constexpr int kGraceMilliseconds = 3000;

bool is_open_mpi(pid_t process) {
  try {
    const std::string content = read_file(cat("/proc/", process, "/comm"));
    const std::string_view name = trim(content);
    return name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "orted";
  } catch (const Error&) {
    return false;
  }
}

int open_process(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

// The functions below run in a forked child of a multi-threaded process, so they can only make system calls.

/// Waits up to `milliseconds` for the processes to end. Returns true if all of them have.
bool wait_for_ends(std::array<pollfd, 2>& processes, int milliseconds) {
  timespec begin{}, now{};
  ::clock_gettime(CLOCK_MONOTONIC, &begin);
  while (true) {
    bool all = true;
    for (pollfd& process : processes) {
      if (process.fd < 0) continue;
      process.events = POLLIN;
      if (::poll(&process, 1, 0) > 0)
        process.fd = -1;  // has ended
      else
        all = false;
    }
    if (all) return true;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1'000'000 >= milliseconds) return false;
    const timespec nap{0, 100'000'000};
    ::nanosleep(&nap, nullptr);
  }
}

void signal_all(const std::array<pollfd, 2>& processes, int number) {
  for (const pollfd& process : processes) {
    if (process.fd >= 0) ::syscall(SYS_pidfd_send_signal, process.fd, number, nullptr, 0);
  }
}

}  // namespace

void end_launcher_after(double seconds) {
  const pid_t parent = ::getppid();
  if (!is_open_mpi(parent)) return;
  std::array<pollfd, 2> processes{};
  processes[0].fd = open_process(parent);
  processes[1].fd = open_process(::getpid());
  if (processes[0].fd < 0 || ::getppid() != parent) return;
  const int milliseconds = static_cast<int>(seconds * 1000);
  if (::fork() != 0) return;
  // The launcher kills every process in this rank's session, so the child needs its own. The launcher also waits for
  // end of file on the rank's streams, so close the child's copies.
  ::setsid();
  const int low = std::min(processes[0].fd, processes[1].fd), high = std::max(processes[0].fd, processes[1].fd);
  if (low > 0) ::close_range(0, static_cast<unsigned>(low) - 1, 0);
  if (low >= 0 && high > low + 1) ::close_range(static_cast<unsigned>(low) + 1, static_cast<unsigned>(high) - 1, 0);
  ::close_range(static_cast<unsigned>(high) + 1, ~0U, 0);
  if (!wait_for_ends(processes, milliseconds)) {
    signal_all(processes, SIGTERM);
    if (!wait_for_ends(processes, kGraceMilliseconds)) signal_all(processes, SIGKILL);
  }
  ::_exit(0);
}

}  // namespace mtl
