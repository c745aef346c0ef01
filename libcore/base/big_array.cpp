#include "base/big_array.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace mtl {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Pages::Pages(std::size_t bytes, std::string_view what) {
  if (bytes == 0) return;
  // One huge page beats several hundred small ones: each small page costs a page fault.
  if (bytes >= kHugePage / 2) bytes = std::max(bytes, kHugePage);
  // A huge page must be aligned to its size, but not every kernel aligns large mappings that way. So map one extra huge
  // page, then unmap whatever lies before and after the aligned range.
  const std::size_t spare = bytes >= kHugePage ? kHugePage : 0;
  void* mapped = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail(Exit::failure, "out of memory: cannot allocate ", human_bytes(bytes), " for ", what);
  auto* begin = static_cast<std::byte*>(mapped);
  if (spare > 0) {
    const std::size_t page = ::sysconf(_SC_PAGESIZE);
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) % kHugePage;
    const std::size_t used = (bytes + page - 1) / page * page;
    if (before > 0) ::munmap(begin, before);
    begin += before;
    if (before < spare) ::munmap(begin + used, spare - before);
  }
  data_ = {begin, Unmap{bytes}};
  ::madvise(begin, bytes, MADV_HUGEPAGE);  // best effort: without huge pages, access is slower
}

void Pages::Unmap::operator()(void* data) const { ::munmap(data, bytes); }

}  // namespace mtl
