// Finds parameters by name.
#pragma once

#include <algorithm>
#include <string>

#include "optim/param_memory.h"

namespace mtl::test {

/// Returns the index of the parameter with this canonical name, or -1 if not found.
inline int param_index(const ParamMemory& params, const std::string& name) {
  const auto found = std::ranges::find(params.specs(), name, &ParamSpec::name);
  return found == params.specs().end() ? -1 : static_cast<int>(found - params.specs().begin());
}

}  // namespace mtl::test
