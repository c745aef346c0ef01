// A file of measured choices, which saves the next run on the same GPU the measurements:
//
//   {"format": "mtl-choices", "version": 1, "contexts": {CONTEXT: {KEY: CHOICE, ...}, ...}}
//
// A context names the GPU and the libraries that the choices are valid for. These functions do not throw: a run can do
// without the file.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace mtl {

using Warn = std::function<void(const std::string&)>;

/// Returns $XDG_CACHE_HOME/mtl/choices.json, or ~/.cache/mtl/choices.json; empty if neither variable is set.
std::string default_choices_file();

/// Returns the choices of a context; none if the file does not exist. Ignores a file that cannot be read, or is not of
/// this format, with a warning.
std::map<std::string, std::string> read_choices(const std::string& path, const std::string& context, const Warn& warn);

/// Adds choices to the context, replacing older ones of the same keys. Replaces the file atomically; if two processes
/// write at once, the choices of one are lost, and measured again later.
void write_choices(const std::string& path, const std::string& context,
                   const std::map<std::string, std::string>& choices, const Warn& warn);

}  // namespace mtl
