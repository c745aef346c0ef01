// Reading a mapped file raises SIGBUS if it was truncated or its disk fails. Inside read_mapped(), the signal becomes
// an error. Elsewhere, the handler prints a message and ends the process.
#pragma once

#include <string>

namespace mtl {

/// Installs a SIGBUS handler. Outside read_mapped(), it prints a message that begins with `program` and ends the
/// process with Exit::io.
void explain_bus_errors(const std::string& program);

}  // namespace mtl
