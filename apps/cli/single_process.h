// run_main for tools without ranks, which must not be started as several processes.
#pragma once

#include "cli/run_main.h"

namespace mtl {

/// Like run_main(), but fails if a launcher started several processes, because each would do all the work and overwrite
/// the same files. Rank 0 reports the problem. For `prepare`, see Flags::parse().
int run_single_process(Flags& flags, int argc, const char* const* argv, const ToolWork& work,
                       const std::function<void()>& prepare = {});

}  // namespace mtl
