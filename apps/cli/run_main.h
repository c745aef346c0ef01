// The frame of every tool's main: parse, run, and turn errors into messages and exit codes.
#pragma once

#include <functional>
#include <string>

#include "base/console.h"
#include "base/threads.h"
#include "cli/flags.h"

namespace mtl {

/// Parses, answers --help, --version and --dump-config, then calls `run`, whose result is the exit code.
/// Errors become "program: message" on stderr and their exit code. A closed pipe on stdout ends the tool quietly.
int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run);

/// The differences of a process that is one rank of a job (cli/ranks.h).
struct RunFrame {
  std::string name;  // what messages begin with; empty: the program's name
  bool is_rank_zero =
      true;  // --help and its like are answered, the console informs; warnings and errors come in any case
  std::function<void()> prepare;                                      // of Flags::parse
  std::function<void(const std::string& message, Exit code)> report;  // instead of "program: message"; may not return
};
int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run,
             const RunFrame& frame);

/// Writes to stdout, which is data; throws Error(io) when that fails. What is still buffered when the tool ends is
/// written by run_main, which then ends with Exit::io if it cannot be.
void print_out(std::string_view text);
/// Hands what is buffered to the reader now. A bare fflush would discard it silently when it cannot be written.
void flush_out();

/// --threads N, which every tool has that computes: 0 means all cores this process may use.
Flags::Flag& add_threads_flag(Flags& flags, std::int64_t& threads, const char* name = "--threads");

}  // namespace mtl
