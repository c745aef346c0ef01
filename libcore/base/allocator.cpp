#include "base/allocator.h"

#include <malloc.h>

namespace mtl {

void return_large_blocks() {
#ifdef M_MMAP_THRESHOLD
  constexpr int kLargeBytes = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kLargeBytes);  // otherwise the line above would fix this threshold at 128 KiB
#endif
}

}  // namespace mtl
