// The input files of a run: finds those that --input names, and refuses outputs that would overwrite one.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Returns, for each word, the file of that name, or else the files that match it as a glob pattern; "-" is standard
/// input.
/// Throws Error(io) that lists every file that is missing, a folder or unreadable.
std::vector<std::string> find_inputs(const std::vector<std::string>& words);

/// Throws UsageError if an output is one of the inputs: the same regular file (device and inode), by any name or link.
/// "-" is standard input. The message asks for another value of `flag`, which names the outputs.
void refuse_overwriting(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::string& flag = "--output-prefix");

}  // namespace mtl
