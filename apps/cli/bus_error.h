// A file that is mapped and becomes shorter, or whose disk fails, raises SIGBUS in the thread that reads it. Inside
// read_mapped that becomes an error; elsewhere the process ends with a message.
#pragma once

#include <string>

namespace mtl {

/// From now on SIGBUS that read_mapped does not take ends the process with a message that begins with `program`, and
/// with the status of a failed read.
void explain_bus_errors(const std::string& program);

}  // namespace mtl
