#include "device/graph.h"

namespace mtl {

void Graph::capture(Stream& stream, const std::function<void()>& body) {
  cuda::begin_capture(stream.handle());
  try {
    body();
  } catch (...) {
    cuda::drop_capture(stream.handle());
    throw;
  }
  handle_.reset(cuda::end_capture(stream.handle()));
}

void Graph::launch(Stream& stream) const { cuda::launch(handle_.get(), stream.handle()); }

}  // namespace mtl
