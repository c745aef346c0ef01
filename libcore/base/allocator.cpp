#include "base/allocator.h"

#include <malloc.h>

namespace mtl {

void return_large_blocks() {
#ifdef M_MMAP_THRESHOLD
  constexpr int kLargeBytes = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kLargeBytes);  // setting only the first would pin this one at 128 KiB
#endif
}

}  // namespace mtl
