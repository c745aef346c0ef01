// The input files of a run: finds those that --input names, and refuses outputs that would overwrite one.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Each word itself, or the files it matches as a pattern if there is no such file; "-" is standard input.
/// Throws Error(io) that lists every file that is missing, a folder or unreadable.
std::vector<std::string> find_inputs(const std::vector<std::string>& words);

/// Throws UsageError if an output is one of the inputs: the same regular file (device and inode), by any name or link.
/// "-" is standard input. `flag` names the outputs.
void refuse_overwriting(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::string& flag = "--output-prefix");

}  // namespace mtl
