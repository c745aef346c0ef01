// mtl-topo's command line.
#pragma once

#include <optional>
#include <string>

#include "cli/flags.h"
#include "topo/options.h"

namespace mtl {

struct TopoCommand {
  TopoOptions options;
  std::optional<std::string> format, output;

  /// Returns text, svg, json or rankfile, or "" if the extension of the file name is unknown.
  std::string output_format() const;
};

/// Declares all of mtl-topo's flags, and their checks.
void add_topo_flags(Flags& flags, TopoCommand& command);

}  // namespace mtl
