// A file that is mapped and becomes shorter, or whose disk fails, ends a process with SIGBUS. This says so.
#pragma once

#include <string>

namespace mtl {

/// From now on SIGBUS ends the process with a message that begins with `program`, and with the status of a failed read.
void explain_bus_errors(const std::string& program);

}  // namespace mtl
