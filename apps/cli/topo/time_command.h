// `mtl-topo time`: how long a step of a given layout takes on given devices.
#pragma once

namespace mtl {

/// Runs the command; argv[0] is its name. Returns the exit code.
int run_time_command(int argc, const char* const* argv);

}  // namespace mtl
