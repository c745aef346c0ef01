// Reads descriptions of devices and their links: share/hardware/NAME.json, and files of users in the same format.
//
//     "memory": {"size": {"value": "80 GB", "source": "NVIDIA H100 SXM data sheet"}, ...
//
// Every quantity states its unit and, in words, where it comes from.
#pragma once

#include <string>
#include <string_view>

#include "planner/machine.h"

namespace mtl {

/// Parses a description. `where` is its file's name, for messages and for Machine::origin. Throws Error(bad_data)
/// "WHERE: line N: ..." for a syntax error, an unknown key, a quantity that is missing, not a number, out of range or
/// in another unit, and a missing source.
Machine parse_hardware(std::string_view text, const std::string& where);
/// Reads a file with a description. Throws what parse_hardware() throws, and for a file of more than 1 MiB.
Machine read_hardware(const std::string& path);

}  // namespace mtl
