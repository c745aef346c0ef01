// What --version --verbose prints, for a report of a fault or an installation that does not work.
#pragma once

#include <string>

namespace mtl {

/// Returns "PROGRAM VERSION", and if `verbose`, lines "TOPIC TEXT": the compiler, the instruction sets of SIMD code and
/// the one used on this CPU, the GPU architectures of the kernels, MPI, the folder of share files, and each library
/// with the version that the program was built with and the file that it has loaded.
std::string version_text(const std::string& program, bool verbose);

}  // namespace mtl
