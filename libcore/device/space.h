// Where memory is.
#pragma once

namespace mtl {

/// Next to where operators run, or next to the program. On a CPU both are the same memory.
enum class Space { device, host };

}  // namespace mtl
