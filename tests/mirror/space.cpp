#include "tests/mirror/space.h"

#include <sys/mman.h>

#include <algorithm>
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

std::size_t round_up(std::size_t bytes, std::size_t page) { return (bytes + page - 1) / page * page; }

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
    const std::size_t page = page_of(bytes);
    used_ = round_up(used_, page);
    bytes = round_up(bytes, page);
    if (bytes > kReserved - 2 * kHugePage - used_)
      fail(Exit::failure, "out of memory: the mirror of the device is full");
    std::byte* out = base_ + used_;
    used_ += bytes;
    live_[out] = bytes;
    if (page == kHugePage) ::madvise(out, bytes, MADV_HUGEPAGE);
    if (opened_ > 0) protect({out, bytes}, PROT_READ | PROT_WRITE);
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
    require(!opened_some_, "mirror: memory is opened within a command");
    if (opened_++ == 0) protect_all(PROT_READ | PROT_WRITE);
  }
  void close() {
    std::lock_guard lock(mutex_);
    if (--opened_ == 0) protect_all(PROT_NONE);
  }
  /// Makes the pages that contain `memory` accessible, and returns them.
  std::vector<mirror::Memory> open(const std::vector<mirror::Memory>& memory) {
    std::lock_guard lock(mutex_);
    require(opened_ == 0 && !opened_some_, "mirror: memory is opened within a command");
    std::vector<mirror::Memory> out;
    for (const mirror::Memory& each : memory) {
      if (each.bytes > 0) out.push_back(pages_of(each));
    }
    for (const mirror::Memory& each : out) protect(each, PROT_READ | PROT_WRITE);
    opened_some_ = true;
    return out;
  }
  void close(const std::vector<mirror::Memory>& pages) {
    std::lock_guard lock(mutex_);
    opened_some_ = false;
    for (const mirror::Memory& each : pages) protect(each, PROT_NONE);
  }
  bool holds(const void* data, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    return containing(data, bytes).data != nullptr;
  }

 private:
  static constexpr std::size_t kPage = 4096, kHugePage = std::size_t{1} << 21;
  /// The same for an allocation's bytes and for its whole pages.
  static std::size_t page_of(std::size_t bytes) { return bytes <= kHugePage - kPage ? kPage : kHugePage; }
  static void protect(const mirror::Memory& memory, int access) {
    require(::mprotect(const_cast<void*>(memory.data), memory.bytes, access) == 0,
            "mirror: mprotect: ", std::strerror(errno));
  }
  mirror::Memory pages_of(const mirror::Memory& memory) const {
    const mirror::Memory allocation = containing(memory.data, memory.bytes);
    require(allocation.data != nullptr, "mirror: a command's memory was released before it ran");
    const std::size_t page = page_of(allocation.bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data);
    const std::size_t before = address % page;
    return {static_cast<const std::byte*>(memory.data) - before, round_up(before + memory.bytes, page)};
  }
  /// Returns the allocation that contains all these bytes, or null.
  mirror::Memory containing(const void* data, std::size_t bytes) const {
    auto* begin = static_cast<std::byte*>(const_cast<void*>(data));
    const auto after = live_.upper_bound(begin);
    if (after == live_.begin()) return {};
    const auto [start, size] = *std::prev(after);
    return begin + bytes <= start + size ? mirror::Memory{start, size} : mirror::Memory{};
  }
  /// Protects adjacent allocations in one call.
  void protect_all(int access) {
    for (auto at = live_.begin(); at != live_.end();) {
      std::byte *const begin = at->first, *end = begin;
      for (; at != live_.end() && at->first == end; ++at) end += at->second;
      protect({begin, static_cast<std::size_t>(end - begin)}, access);
    }
  }

  std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  std::map<std::byte*, std::size_t> live_;
  int opened_ = 0;
  bool opened_some_ = false;  // by a command, for its operands
};

Space& space() {
  static auto& only = *new Space;  // never destroyed: static tensors may outlive it
  return only;
}

}  // namespace

namespace mirror {

Opened::Opened() : all_(true) { space().open(); }
Opened::Opened(const std::vector<Memory>& memory) : pages_(space().open(memory)) {}
Opened::~Opened() { all_ ? space().close() : space().close(pages_); }

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
  mirror::Opened opened({{to, bytes}});
  std::memcpy(to, from, bytes);
}

void copy_to_host(void* to, const void* from, std::size_t bytes) {
  mirror::require_inside(from, bytes);
  mirror::finish_all("a copy without a stream");
  mirror::Opened opened({{from, bytes}});
  std::memcpy(to, from, bytes);
}

}  // namespace cuda

}  // namespace mtl
