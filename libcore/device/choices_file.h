// A file that stores measured choices, so that the next run on the same GPU need not repeat the measurements:
//
//   {"format": "mtl-choices", "version": 1, "contexts": {CONTEXT: {KEY: CHOICE, ...}, ...}}
//
// A context names the GPU and the libraries for which the choices are valid. These functions do not throw, because a
// run does not need the file.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace mtl {

using Warn = std::function<void(const std::string&)>;

/// Returns $XDG_CACHE_HOME/mtl/choices.json, or ~/.cache/mtl/choices.json. Empty if neither variable is set.
std::string default_choices_file();

/// Returns a context's choices. Empty if the file does not exist. If the file cannot be read or does not have this
/// format, warns and returns empty.
std::map<std::string, std::string> read_choices(const std::string& path, const std::string& context, const Warn& warn);

/// Adds choices to the context, replacing older choices with the same keys. Replaces the file atomically. If two
/// processes write at the same time, one process's choices are lost and will be measured again later.
void write_choices(const std::string& path, const std::string& context,
                   const std::map<std::string, std::string>& choices, const Warn& warn);

}  // namespace mtl
