#include "device/memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "device/cuda_memory.h"

namespace mtl {

namespace {
constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

// For buffer_use(), which only assertions call.
std::atomic<std::size_t> bytes_in_use = 0, buffers_made = 0;

std::byte* allocate_on_cpu(std::size_t bytes) {
  std::size_t align = bytes >= kHugePage ? kHugePage : kAlign;
  std::size_t rounded = round_up(bytes, align);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(align, rounded));
  if (data == nullptr)
    fail(Exit::failure, "out of memory: cannot allocate ", human_bytes(bytes),
         "; use a smaller batch or model, use more ranks on more hosts, or raise the limit (ulimit -v, ulimit -d, the "
         "job's memory)");
  if (align == kHugePage) ::madvise(data, rounded, MADV_HUGEPAGE);  // before the first touch
    // The operating system clears each page at first access. Share this work between all cores, because it is slow.
#pragma omp parallel for schedule(static) if (rounded >= 8 * kHugePage)
  for (std::size_t begin = 0; begin < rounded; begin += kHugePage) {
    std::memset(data + begin, 0, std::min(kHugePage, rounded - begin));
  }
  return data;
}
}  // namespace

BufferUse buffer_use() { return {bytes_in_use, buffers_made}; }

Buffer::Buffer(Device device, std::size_t bytes, Space space, const std::string& folder) : bytes_(bytes) {
  if (device == Device::meta || bytes == 0) return;
  std::byte* data = nullptr;
  if (space == Space::file) {
    file_ = std::make_unique<FileMemory>(folder, bytes);
    data = file_->data();
  } else if (device == Device::cuda) {
    data = space == Space::host ? cuda::allocate_pinned(bytes) : cuda::allocate(bytes);
  } else {
    data = allocate_on_cpu(bytes);
  }
  data_ = {data, Free{device, space, bytes}};
  bytes_in_use += bytes;
  ++buffers_made;
}

void Buffer::Free::operator()(std::byte* data) const {
  bytes_in_use -= bytes;
  if (space == Space::file) return;
  if (device == Device::cuda) {
    space == Space::host ? cuda::release_pinned(data) : cuda::release(data);
  } else {
    std::free(data);
  }
}

Tensor Buffer::tensor(DType dtype, Shape shape, std::size_t offset) const {
  Tensor out(data_ == nullptr ? nullptr : data() + offset, dtype, shape);
  require(offset + out.bytes() <= bytes_, "a tensor of ", shape, " does not fit its buffer");
  return out;
}

Arena::Arena(Device device, std::string name, std::size_t capacity)
    : device_(device), name_(std::move(name)), own_(device, capacity), data_(own_.data()), capacity_(capacity) {}

Arena::Arena(Device device, std::string name, const Buffer& memory, std::size_t offset, std::size_t capacity)
    : device_(device), name_(std::move(name)), capacity_(capacity) {
  require(offset % kAlign == 0 && offset + capacity <= memory.bytes(), name_, ": bytes ", offset, " to ",
          offset + capacity, " are not an aligned part of a buffer of ", memory.bytes());
  if (memory.data() != nullptr) data_ = memory.data() + offset;
}

Tensor Arena::make(DType dtype, Shape shape, std::size_t align) {
  Tensor out(nullptr, dtype, shape);
  const std::size_t begin = round_up(used_, align);
  used_ = round_up(begin + out.bytes(), kAlign);
  peak_ = std::max(peak_, used_);
  if (device_ == Device::meta) return out;
  require(begin + out.bytes() <= capacity_, name_, ": the plan has ", capacity_, " bytes, ", used_, " are needed");
  return Tensor(data_ + begin, dtype, shape);
}

}  // namespace mtl
