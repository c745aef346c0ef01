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

/// $XDG_CACHE_HOME/mtl/choices.json, or ~/.cache/mtl/choices.json; empty without a home.
std::string default_choices_file();

/// The choices of a context; none without the file. A file that cannot be read, or is not of this format, is ignored
/// with a warning.
std::map<std::string, std::string> read_choices(const std::string& path, const std::string& context, const Warn& warn);

/// Adds choices to the context, over older ones; those of other contexts stay. Replaces the file in one step, so that
/// no process reads half of it; if two write at once, the choices of one are lost, and measured again later.
void write_choices(const std::string& path, const std::string& context,
                   const std::map<std::string, std::string>& choices, const Warn& warn);

}  // namespace mtl
