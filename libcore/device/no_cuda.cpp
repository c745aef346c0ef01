// For builds without CUDA. Device memory cannot be allocated, and device streams cannot be opened, so the functions
// that use them are never called.
#include "base/error.h"
#include "device/cuda_memory.h"
#include "device/cuda_stream.h"

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

void use_device(int) { refuse(); }
int used_device() { refuse(); }
StreamHandle open_stream() { refuse(); }
void close_stream(StreamHandle) noexcept {}
void synchronize(StreamHandle) { refuse(); }
void copy_from_host(StreamHandle, void*, const void*, std::size_t) { refuse(); }
void copy_to_host(StreamHandle, void*, const void*, std::size_t) { refuse(); }
void copy_within(StreamHandle, void*, const void*, std::size_t) { refuse(); }
EventHandle make_event(bool) { refuse(); }
void free_event(EventHandle) noexcept {}
void record(EventHandle, StreamHandle) { refuse(); }
void order(EventHandle, StreamHandle) { refuse(); }
void synchronize(EventHandle) { refuse(); }
bool is_done(EventHandle) { refuse(); }
float milliseconds_between(EventHandle, EventHandle) { refuse(); }
void begin_capture(StreamHandle) { refuse(); }
GraphHandle end_capture(StreamHandle) { refuse(); }
bool is_captured(StreamHandle) { refuse(); }
void drop_capture(StreamHandle) noexcept {}
void launch(GraphHandle, StreamHandle) { refuse(); }
void free_graph(GraphHandle) noexcept {}

}  // namespace mtl::cuda
