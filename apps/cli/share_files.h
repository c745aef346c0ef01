// Files that are installed with the programs: GPT-2's vocabulary, hardware, the demo, experiments, Slurm templates. A
// program in DIR/bin has them in DIR/share/mtl, in a build, a prefix, a package and an archive alike.
#pragma once

#include <string>

namespace mtl {

/// Returns the folder, whether it exists or not. Follows symbolic links to the program.
std::string share_folder();

/// Returns the path of a share file, such as "gpt2/vocab.json". Throws Error(io) if there is no such file.
std::string share_file(const std::string& name);

}  // namespace mtl
