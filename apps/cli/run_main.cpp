#include "cli/run_main.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/exception_text.h"
#include "base/files.h"
#include "base/interrupt_guard.h"
#include "base/mapped_faults.h"
#include "base/printable.h"

namespace mtl {

namespace {

/// Opens /dev/null for every closed standard stream (`2>&-`), in a mode in which using it still fails. Otherwise the
/// next file we open would get that descriptor, and messages would end up in the file.
void reserve_standard_streams() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF)
      (void)!::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Gives this thread, as far as the hard limit allows, and all new threads the stack that Linux grants by default. With
/// the 64 KiB of `ulimit -s 64`, either would overflow its stack and end the process without a message. Throws
/// Error(failure) if this thread's stack remains too small.
void provide_stacks() {
  constexpr std::size_t kBytes = 8 << 20, kLeastBytes = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kBytes) return;  // threads get as much, or 2 MiB
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kBytes);
  ::setrlimit(RLIMIT_STACK, &limit);
  if (limit.rlim_cur < kLeastBytes) {
    fail(Exit::failure, "the stack may have only ", human_bytes(limit.rlim_cur), " (ulimit -s ", limit.rlim_cur >> 10,
         "), which is too small; set ulimit -s 8192");
  }
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  if (::pthread_attr_setstacksize(&attributes, kBytes) == 0) ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

/// Keeps the owner's rights on new files and folders, which a umask such as 0777 takes away: programs could not read or
/// remove what they made themselves.
void keep_own_rights() {
  const mode_t mask = ::umask(0);
  ::umask(mask & ~static_cast<mode_t>(S_IRWXU));
}

int finish(const std::string& program, Exit code) {
  if (std::fflush(stdout) != 0 && errno != EPIPE) {
    std::fprintf(stderr, "%s: standard output: cannot write: %s\n", program.c_str(), std::strerror(errno));
    return static_cast<int>(Exit::io);
  }
  return static_cast<int>(code);
}

}  // namespace

int run_main(Flags& flags, int argc, const char* const* argv, const ToolWork& work, const RunFrame& frame) {
  reserve_standard_streams();
  // `mtl-data cat x | head`: a reader that closes the pipe is not an error. SIG_DFL ends the process silently.
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_IGN);  // beyond RLIMIT_FSIZE, write(2) fails instead, as on a full disk
  explain_bus_errors(frame.name.empty() ? flags.program() : frame.name);
  Console console(frame.name.empty() ? flags.program() : frame.name);
  auto report = [&](const std::string& message, Exit code) {
    console.end_progress();
    if (frame.report)
      frame.report(message, code);
    else
      std::fprintf(stderr, "%s: %s\n", flags.program().c_str(), printable_message(message).c_str());
    std::fflush(stdout);  // may fail too; the error we report decides the exit code
    return static_cast<int>(code);
  };
  try {
    provide_stacks();
    keep_own_rights();
    if (frame.begin) frame.begin();
    if (const std::optional<std::string> answer = flags.parse(argc, argv, frame.prepare)) {
      if (frame.is_rank_zero) print_out(*answer);
      return finish(flags.program(), Exit::ok);
    }
    console.quiet = flags.quiet || !frame.is_rank_zero;
    for (const std::string& notice : flags.notices()) console.info(notice);
    return finish(flags.program(), work.run(console));
  } catch (const Error& error) {
    return report(error.what(), error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    return report(describe_exception(error), Exit::io);
  } catch (const std::exception& error) {
    return report(describe_exception(error), Exit::failure);
  }
}

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_errno("standard output", "write");
}

void flush_out() {
  if (std::fflush(stdout) != 0) fail_errno("standard output", "write");
}

void write_output(const std::optional<std::string>& output, std::string_view text, const std::string& program) {
  if (names_file(output)) {
    InterruptGuard guard(program);
    return write_file_atomic(*output, text, &guard);
  }
  print_out(text);
  flush_out();
}

void add_threads_flag(Flags& flags, std::int64_t& threads, const char* name, const char* help, const Bounds& bounds) {
  flags.add(name, &threads, "N", help, within(bounds));
}

void add_device_flag(Flags& flags, std::string& name) {
  flags.add("--device", &name, "NAME", "device to compute on (auto: a GPU if one can be used)",
            one_of({"auto", "cpu", "cuda"}));
}

void keep_thread_waits_short(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 0);
  std::error_code no_proc;
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe", no_proc);  // resolved, because the new process is named after it
  ::execv(program.c_str(), argv);                                // if it fails, libgomp's default remains
}

}  // namespace mtl
