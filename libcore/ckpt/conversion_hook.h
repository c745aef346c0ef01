// Model writers call this hook with the elements of each tensor before and after their conversion.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "ckpt/stored_dtype.h"

namespace mtl {

using ConversionHook = std::function<void(const std::string& name, StoredDType from, std::span<const std::byte> stored,
                                          StoredDType to, std::span<const std::byte> converted)>;

}  // namespace mtl
