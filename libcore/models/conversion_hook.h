// A hook that model writers call for every block of each tensor that they write, in order, with the elements as stored
// in the source and after conversion.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "formats/stored_dtype.h"

namespace mtl {

using ConversionHook = std::function<void(const std::string& name, StoredDType from, std::span<const std::byte> stored,
                                          StoredDType to, std::span<const std::byte> converted)>;

}  // namespace mtl
