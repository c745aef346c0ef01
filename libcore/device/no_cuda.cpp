// For builds without CUDA. Device memory cannot be allocated, so the other functions are never called.
#include "base/error.h"
#include "device/cuda_memory.h"

namespace mtl::cuda {

namespace {
[[noreturn]] void refuse() {
  fail(Exit::usage, "--device cuda: this program was built without CUDA; use --device cpu");
}
}  // namespace

std::byte* allocate(std::size_t) { refuse(); }
void release(std::byte*) noexcept {}
std::byte* allocate_pinned(std::size_t) { refuse(); }
void release_pinned(std::byte*) noexcept {}
void copy_from_host(void*, const void*, std::size_t) { refuse(); }
void copy_to_host(void*, const void*, std::size_t) { refuse(); }

}  // namespace mtl::cuda
