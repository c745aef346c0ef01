// Where memory is located.
#pragma once

namespace mtl {

/// `device` is memory on the device that runs operators. `host` is the program's memory. On a CPU, they are the same.
/// `file` is a file without a name (file_memory.h).
enum class Space { device, host, file };

}  // namespace mtl
