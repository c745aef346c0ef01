// Model writers call this hook once for each tensor, with its elements as stored in the source and as converted.
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
