// The commands of mtl-topo. Each takes the command line, starting with its own name, and returns the exit code.
#pragma once

namespace mtl {

/// Finds the fastest layout of a run on given devices.
int run_plan_command(int argc, const char* const* argv);
/// Tells how long a step of a given layout takes on given devices.
int run_time_command(int argc, const char* const* argv);

}  // namespace mtl
