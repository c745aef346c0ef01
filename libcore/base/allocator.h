// Makes the process return freed memory to the system.
#pragma once

namespace mtl {

/// Makes malloc return freed blocks of 4 MiB or more to the system at once. By default glibc keeps blocks of up to 32
/// MiB for reuse, in one heap per thread, so a process that decodes files with several threads holds large buffers that
/// it has freed. Call this function before the first large allocation.
void return_large_blocks();

}  // namespace mtl
