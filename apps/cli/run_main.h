// The body of every tool's main: parses flags, runs, and turns errors into messages and exit codes.
#pragma once

#include <functional>
#include <string>

#include "base/console.h"
#include "base/threads.h"
#include "cli/flags.h"

namespace mtl {

/// Parses the flags, answers --help, --version and --dump-config, or else calls `run`, whose result is the exit code.
/// Prints an exception as "program: message" on stderr and returns its exit code. A closed pipe on stdout ends the tool
/// silently.
int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run);

/// Settings of run_main for a process that is one rank of a job (cli/ranks.h).
struct RunFrame {
  std::string name;  // begins the console's messages; empty: the program's name
  /// False: prints warnings and errors only, no information and no answer to --help and similar flags.
  bool is_rank_zero = true;
  std::function<void()> prepare;                                      // for Flags::parse
  std::function<void(const std::string& message, Exit code)> report;  // prints an error; may not return
};
int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run,
             const RunFrame& frame);

/// Writes text to stdout; throws Error(io) on failure. At the end, run_main flushes stdout; it returns Exit::io if that
/// fails.
void print_out(std::string_view text);
/// Flushes stdout; throws Error(io) on failure.
void flush_out();

/// Adds --threads N, or the names in `name`; 0 means every core that this process may run on (resolve_threads).
Flags::Flag& add_threads_flag(Flags& flags, std::int64_t& threads, const char* name = "--threads");

}  // namespace mtl
