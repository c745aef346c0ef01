// For builds without CUDA. Device streams cannot be created, so the other functions are never called.
#include "base/error.h"
#include "device/cuda_stream.h"

namespace mtl::cuda {

namespace {
[[noreturn]] void refuse_stream() {
  fail(Exit::usage, "--device cuda: this program was built without CUDA; use --device cpu");
}
}  // namespace

void use_device(int) { refuse_stream(); }
int used_device() { refuse_stream(); }
StreamHandle open_stream() { refuse_stream(); }
void close_stream(StreamHandle) noexcept {}
void synchronize(StreamHandle) { refuse_stream(); }
void copy_from_host(StreamHandle, void*, const void*, std::size_t) { refuse_stream(); }
void copy_to_host(StreamHandle, void*, const void*, std::size_t) { refuse_stream(); }
void copy_within(StreamHandle, void*, const void*, std::size_t) { refuse_stream(); }
EventHandle make_event(bool) { refuse_stream(); }
void free_event(EventHandle) noexcept {}
void record(EventHandle, StreamHandle) { refuse_stream(); }
void order(EventHandle, StreamHandle) { refuse_stream(); }
void synchronize(EventHandle) { refuse_stream(); }
bool is_done(EventHandle) { refuse_stream(); }
float milliseconds_between(EventHandle, EventHandle) { refuse_stream(); }
void begin_capture(StreamHandle) { refuse_stream(); }
GraphHandle end_capture(StreamHandle) { refuse_stream(); }
bool is_captured(StreamHandle) { refuse_stream(); }
void drop_capture(StreamHandle) noexcept {}
void launch(GraphHandle, StreamHandle) { refuse_stream(); }
void free_graph(GraphHandle) noexcept {}

}  // namespace mtl::cuda
