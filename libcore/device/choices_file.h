// A file that stores measured choices, so that the next run on the same GPU need not repeat the measurements:
//
//   {"format": "mtl-choices", "version": 1, "contexts": {CONTEXT: {KEY: CHOICE, ...}, ...}}
//
// A context identifies the GPU and the libraries for which the choices are valid. These functions warn instead of
// throwing, because a run can do without the file.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace mtl {

using Warn = std::function<void(const std::string&)>;

/// Returns $XDG_CACHE_HOME/mtl/choices.json if XDG_CACHE_HOME is an absolute path, otherwise
/// $HOME/.cache/mtl/choices.json. Returns "" if HOME is not set either.
std::string default_choices_file();

/// Returns a context's choices. If the file does not exist, returns no choices. If it is unreadable or has another
/// format, also warns.
std::map<std::string, std::string> read_choices(const std::string& path, const std::string& context, const Warn& warn);

/// Adds choices to the context, replacing older choices with the same keys. Replaces the file atomically. If two
/// processes write at the same time, one loses its choices, and they will be measured again later.
void write_choices(const std::string& path, const std::string& context,
                   const std::map<std::string, std::string>& choices, const Warn& warn);

}  // namespace mtl
