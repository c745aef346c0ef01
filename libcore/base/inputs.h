// The files that a run reads: which ones --input names, and that no output replaces one of them.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Each word itself, or the files it matches as a pattern when there is no such file; "-" is standard input.
/// Throws Error(io) that lists all that is missing, is a folder, or cannot be read.
std::vector<std::string> find_inputs(const std::vector<std::string>& words);

/// Throws UsageError when an output is one of the inputs: the same regular file (device and inode), whatever names and
/// links lead to it. "-" is standard input. `flag` names the outputs.
void refuse_overwriting(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::string& flag = "--output-prefix");

}  // namespace mtl
