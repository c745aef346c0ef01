// Makes the process return memory that it frees.
#pragma once

namespace mtl {

/// Makes malloc return freed blocks of 4 MiB or more to the system at once. By default glibc keeps blocks of up to 32
/// MiB for later, in a heap of each thread, so a process that decodes files with several threads holds large buffers
/// that it has freed. Call it before the first large allocation.
void return_large_blocks();

}  // namespace mtl
