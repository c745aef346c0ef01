// The frame of every tool's main: parse, run, and turn errors into messages and exit codes.
#pragma once

#include <functional>

#include "base/console.h"
#include "cli/flags.h"

namespace mtl {

/// Parses, answers --help, --version and --dump-config, then calls `run`, whose result is the exit code.
/// Errors become "program: message" on stderr and their exit code. A closed pipe on stdout ends the tool quietly.
int run_main(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run);

/// Writes to stdout, which is data; throws Error(io) when that fails.
void print_out(std::string_view text);

/// --threads N: adds the flag every tool has. 0 means all cores this process may use.
void add_threads_flag(Flags& flags, std::int64_t& threads);
/// The number of threads to use.
int resolve_threads(std::int64_t threads);

}  // namespace mtl
