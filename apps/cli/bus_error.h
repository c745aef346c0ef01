// Reading a mapped file raises SIGBUS if the file was truncated or its disk fails. Inside read_mapped the signal
// becomes an error; elsewhere the handler prints a message and ends the process.
#pragma once

#include <string>

namespace mtl {

/// Makes SIGBUS outside of read_mapped end the process with Exit::io and a message that begins with `program`.
void explain_bus_errors(const std::string& program);

}  // namespace mtl
