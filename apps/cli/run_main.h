// The frame of every tool's main: parse, run, and turn errors into messages and exit codes.
#pragma once

#include <functional>
#include <string>

#include "base/console.h"
#include "base/threads.h"
#include "cli/flags.h"

namespace mtl {

/// Parses, answers --help, --version and --dump-config, then calls `run`, whose result is the exit code.
/// Prints an error as "program: message" on stderr and returns its exit code. A closed pipe on stdout ends the tool
/// silently.
int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run);

/// The differences of a process that is one rank of a job (cli/ranks.h).
struct RunFrame {
  std::string name;  // at the start of messages; empty: the program's name
  /// False: answers neither --help nor its like, and prints no information, only warnings and errors.
  bool is_rank_zero = true;
  std::function<void()> prepare;                                      // of Flags::parse
  std::function<void(const std::string& message, Exit code)> report;  // prints an error; may not return
};
int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run,
             const RunFrame& frame);

/// Writes data to stdout; throws Error(io) on failure. At the end run_main flushes, and returns Exit::io if that fails.
void print_out(std::string_view text);
/// Flushes stdout; throws Error(io) on failure.
void flush_out();

/// Adds --threads N, or `name`; 0 means every core that this process may run on (resolve_threads).
Flags::Flag& add_threads_flag(Flags& flags, std::int64_t& threads, const char* name = "--threads");

}  // namespace mtl
