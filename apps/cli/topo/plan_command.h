// `mtl-topo plan`: finds the fastest layout of a run on given devices.
#pragma once

namespace mtl {

/// Runs the command; argv[0] is its name. Returns the exit code.
int run_plan_command(int argc, const char* const* argv);

}  // namespace mtl
