// The body of every tool's main: parses flags, runs, and turns errors into messages and exit codes.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include "base/console.h"
#include "base/threads.h"
#include "cli/flags.h"

namespace mtl {

/// A tool's work: a callable that takes the console, and returns the exit code, or nothing for Exit::ok.
struct ToolWork {
  template <std::invocable<Console&> Work>
  ToolWork(Work work)
      : run([work](Console& console) {
          if constexpr (std::is_void_v<std::invoke_result_t<Work, Console&>>) {
            work(console);
            return Exit::ok;
          } else {
            return work(console);
          }
        }) {}
  std::function<Exit(Console&)> run;
};

/// run_main() settings for a process that is one rank of a job (cli/train/ranks.h).
struct RunFrame {
  std::string name;  // prefix for the console's messages; empty: the program's name
  /// If false, prints only warnings and errors, and does not answer --help and the like.
  bool is_rank_zero = true;
  std::function<void()> begin;    // runs before the flags are parsed, once threads get enough stack
  std::function<void()> prepare;  // for Flags::parse
  std::function<void(const std::string& message, Exit code)> report;  // prints an error; may not return
};

/// Parses the flags. Answers --help, --version and --dump-config; otherwise does the work. On an exception, prints
/// "program: message" to stderr and returns its exit code. A closed pipe on stdout ends the tool silently.
int run_main(Flags& flags, int argc, const char* const* argv, const ToolWork& work, const RunFrame& frame = {});

/// Writes text to stdout. Throws Error(io) on failure. At the end, run_main() flushes stdout, and returns Exit::io if
/// that fails.
void print_out(std::string_view text);
/// Flushes stdout. Throws Error(io) on failure.
void flush_out();

/// Returns true if the value of --output names a file: not if it is absent, or "-" for stdout.
inline bool names_file(const std::optional<std::string>& output) { return output && *output != "-"; }
/// Writes text to the file that --output names, or else to stdout. No signal leaves an incomplete file behind.
void write_output(const std::optional<std::string>& output, std::string_view text, const std::string& program);

/// Adds --threads N, or the flag names in `name`. 0 means as many as resolve_threads() returns.
void add_threads_flag(Flags& flags, std::int64_t& threads, const char* name = "--threads",
                      const char* help = "threads to use; 0: every core that this process may use",
                      const Bounds& bounds = {0, 1024});
/// Adds --device: the device on which a program computes (device/device_choice.h). `name` holds its default.
void add_device_flag(Flags& flags, std::string& name);

/// Sets how OpenMP threads wait for work. Programs that compute call this first in main(). Makes waiting threads sleep
/// after about ten microseconds. By default, libgomp's threads spin for milliseconds. On busy cores, a spinning thread
/// takes the core from the very thread it is waiting for, and a training step takes several times as long. libgomp
/// reads its settings when it is loaded, so this restarts the program with GOMP_SPINCOUNT set. Does nothing if
/// GOMP_SPINCOUNT or OMP_WAIT_POLICY is already set.
void keep_thread_waits_short(char** argv);

}  // namespace mtl
