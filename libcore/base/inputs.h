// The input files of a run: finds the files given by --input, and refuses outputs that would overwrite an input.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Returns the files that `words` specify. Each word is a file name or, if no such file exists, a glob pattern; "-" is
/// standard input. Throws an Error(io) that lists every word without a match and every file that is a folder or cannot
/// be read.
std::vector<std::string> find_inputs(const std::vector<std::string>& words);

/// Throws UsageError if an output and an input are the same regular file (device and inode), even under different names
/// or through links. The input "-" is standard input. The error message asks the user for another value of `flag`, the
/// flag that sets the output names.
void refuse_overwriting(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::string& flag = "--output-prefix");

}  // namespace mtl
