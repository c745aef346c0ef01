// The location of memory.
#pragma once

namespace mtl {

/// `device`: memory of the device that runs operators; `host`: memory of the program. Identical on a CPU.
enum class Space { device, host };

}  // namespace mtl
