// The location of memory.
#pragma once

namespace mtl {

/// `device` is the memory of the device that runs operators. `host` is the memory of the program. On a CPU, both are
/// identical.
enum class Space { device, host };

}  // namespace mtl
