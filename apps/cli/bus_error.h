// Reading a mapped file that became shorter, or whose disk fails, raises SIGBUS. read_mapped turns the signal into an
// error; elsewhere it ends the process with a message.
#pragma once

#include <string>

namespace mtl {

/// Makes SIGBUS outside of read_mapped end the process with Exit::io and a message that begins with `program`.
void explain_bus_errors(const std::string& program);

}  // namespace mtl
