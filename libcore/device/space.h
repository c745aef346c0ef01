// The location of memory.
#pragma once

namespace mtl {

/// `device` is the memory of the device that runs operators. `host` is the program's memory. On a CPU, they are the
/// same.
enum class Space { device, host };

}  // namespace mtl
