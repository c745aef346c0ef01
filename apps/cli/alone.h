// The frame of a main that is not a rank of a job: run_main, which refuses to run several times side by side.
#pragma once

#include "cli/run_main.h"

namespace mtl {

/// As run_main. When a launcher has started several processes, each would do all of the work, their output mixed and
/// their files written over one another: that is a problem with the configuration, which the first of them reports.
/// `prepare`: see Flags::parse.
int run_alone(Flags& flags, int argc, const char* const* argv, const std::function<Exit(Console&)>& run,
              const std::function<void()>& prepare = {});

}  // namespace mtl
