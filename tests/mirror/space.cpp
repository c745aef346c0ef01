#include "tests/mirror/space.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "device/cuda_memory.h"
#include "tests/mirror/queue.h"

namespace mtl {

namespace {

constexpr std::size_t kReserved = std::size_t{1} << 38;  // bytes of address space; no address is used twice

/// Allocates ascending addresses and never reuses one, so that addresses in released memory stay invalid.
class Space {
 public:
  Space() {
    void* at = ::mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(at != MAP_FAILED, "mirror: cannot reserve the device's addresses: ", std::strerror(errno));
    base_ = static_cast<std::byte*>(at) + (kHugePage - reinterpret_cast<std::uintptr_t>(at) % kHugePage) % kHugePage;
  }
  std::byte* allocate(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    // Large memory is in huge pages of its own, each of which the kernel protects as one page. Otherwise protecting a
    // model's memory takes longer than its operators, and a release beside it splits the page into small ones.
    const std::size_t page = bytes < kHugePage ? kPage : kHugePage;
    const auto whole_pages = [&](std::size_t size) { return (size + page - 1) / page * page; };
    used_ = whole_pages(used_);
    bytes = whole_pages(bytes);
    if (bytes > kReserved - 2 * kHugePage - used_)
      fail(Exit::failure, "out of memory: the mirror of the device is full");
    std::byte* out = base_ + used_;
    used_ += bytes;
    live_[out] = bytes;
    if (page == kHugePage) ::madvise(out, bytes, MADV_HUGEPAGE);
    if (opened_ > 0) protect(out, static_cast<std::ptrdiff_t>(bytes), PROT_READ | PROT_WRITE);
    return out;
  }
  void release(std::byte* memory) {
    std::lock_guard lock(mutex_);
    auto found = live_.find(memory);
    ::mmap(memory, found->second, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    live_.erase(found);
  }
  void open() {
    std::lock_guard lock(mutex_);
    if (opened_++ == 0) protect_all(PROT_READ | PROT_WRITE);
  }
  void close() {
    std::lock_guard lock(mutex_);
    if (--opened_ == 0) protect_all(PROT_NONE);
  }
  bool holds(const void* data, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    auto* begin = static_cast<std::byte*>(const_cast<void*>(data));
    auto after = live_.upper_bound(begin);
    if (after == live_.begin()) return false;
    auto [start, size] = *std::prev(after);
    return begin + bytes <= start + size;
  }

 private:
  static constexpr std::size_t kPage = 4096, kHugePage = std::size_t{1} << 21;
  static void protect(std::byte* memory, std::ptrdiff_t bytes, int access) {
    require(::mprotect(memory, static_cast<std::size_t>(bytes), access) == 0,
            "mirror: mprotect: ", std::strerror(errno));
  }
  /// Protects adjacent allocations in one call: this runs twice for every operator.
  void protect_all(int access) {
    for (auto at = live_.begin(); at != live_.end();) {
      std::byte *const begin = at->first, *end = begin;
      for (; at != live_.end() && at->first == end; ++at) end += at->second;
      protect(begin, end - begin, access);
    }
  }

  std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  std::map<std::byte*, std::size_t> live_;
  int opened_ = 0;
};

Space& space() {
  static auto& only = *new Space;  // never destroyed: static tensors may outlive it
  return only;
}

}  // namespace

namespace mirror {

Opened::Opened() { space().open(); }
Opened::~Opened() { space().close(); }

void require_inside(const void* data, std::size_t bytes) {
  require(bytes == 0 || space().holds(data, bytes), "mirror: an operator on the device was given host memory");
}

}  // namespace mirror

namespace cuda {

std::byte* allocate(std::size_t bytes) {
  mirror::finish_all("an allocation");
  return space().allocate(bytes);
}
void release(std::byte* memory) noexcept {
  mirror::finish_all("a release");
  space().release(memory);
}
std::byte* allocate_pinned(std::size_t bytes) {
  mirror::finish_all("pinning");
  return static_cast<std::byte*>(std::calloc(bytes, 1));
}
void release_pinned(std::byte* memory) noexcept {
  mirror::finish_all("a release");
  std::free(memory);
}

void copy_from_host(void* to, const void* from, std::size_t bytes) {
  mirror::require_inside(to, bytes);
  mirror::finish_all("a copy without a stream");
  mirror::Opened opened;
  std::memcpy(to, from, bytes);
}

void copy_to_host(void* to, const void* from, std::size_t bytes) {
  mirror::require_inside(from, bytes);
  mirror::finish_all("a copy without a stream");
  mirror::Opened opened;
  std::memcpy(to, from, bytes);
}

}  // namespace cuda

}  // namespace mtl
