#include "cli/run_main.h"

#include <sched.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "version.h"

namespace mtl {

namespace {

int finish(Exit code) {
  if (std::fflush(stdout) != 0 && errno != EPIPE) {
    std::fprintf(stderr, "cannot write to standard output: %s\n", std::strerror(errno));
    return static_cast<int>(Exit::io);
  }
  return static_cast<int>(code);
}

}  // namespace

int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run) {
  // `mtl-data cat x | head`: a reader that left is no fault; the default action ends the process without a word.
  std::signal(SIGPIPE, SIG_DFL);
  Console console(flags.program());
  try {
    switch (flags.parse(argc, argv)) {
      case Flags::Request::help:
        print_out(flags.help());
        return finish(Exit::ok);
      case Flags::Request::version:
        print_out(cat(flags.program(), " ", kVersion, "\n"));
        return finish(Exit::ok);
      case Flags::Request::dump_config:
        print_out(flags.dump_config());
        return finish(Exit::ok);
      case Flags::Request::run:
        break;
    }
    console.quiet = flags.quiet;
    for (const std::string& notice : flags.notices()) console.info(notice);
    return finish(run(console));
  } catch (const Error& error) {
    console.end_progress();
    std::fprintf(stderr, "%s: %s\n", flags.program().c_str(), error.what());
    finish(error.code());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", flags.program().c_str());
    return static_cast<int>(Exit::failure);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: internal error: %s\n", flags.program().c_str(), error.what());
    return static_cast<int>(Exit::failure);
  }
}

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_errno("standard output", "write");
}

void add_threads_flag(Flags& flags, std::int64_t& threads) {
  flags.add("--threads", &threads, "N", "threads to use; 0 means every core this process may run on");
}

int resolve_threads(std::int64_t threads) {
  if (threads > 0) return static_cast<int>(threads);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace mtl
