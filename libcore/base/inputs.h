// Finds the files given by --input, and rejects outputs that would overwrite an input or that cannot be written.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Returns the files specified by `words`. Each word is a file name or, if no such file exists, a glob pattern; "-" is
/// standard input. Throws an Error(io) that lists every word without a match, every folder, and every unreadable file.
std::vector<std::string> find_inputs(const std::vector<std::string>& words);

/// Throws UsageError if an output and an input are the same regular file (by device and inode), even under different
/// names or through links. The input "-" is standard input. The message suggests changing `flag`, which sets the output
/// names.
void refuse_overwriting(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::string& flag = "--output-prefix");

/// Checks the file that --output names, before the work for it: throws what refuse_overwriting() throws, and Error(io)
/// if the output is a folder, or no file can be made in its folder.
void check_output(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace mtl
