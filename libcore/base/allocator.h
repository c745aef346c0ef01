// Returns freed memory to the operating system.
#pragma once

namespace mtl {

/// Makes free() return blocks of 4 MiB or more to the operating system immediately. By default, glibc may keep freed
/// blocks of up to 32 MiB for reuse, in a separate heap per thread, so a process that decodes files on several threads
/// would hold on to large buffers it no longer needs. Must be called before the first large allocation.
void return_large_blocks();

}  // namespace mtl
