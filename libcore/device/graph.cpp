#include "device/graph.h"

#include <utility>

namespace mtl {

Graph::~Graph() {
  if (handle_ != nullptr) cuda::free_graph(handle_);
}
Graph::Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void Graph::capture(Stream& stream, const std::function<void()>& body) {
  cuda::begin_capture(stream.handle());
  try {
    body();
  } catch (...) {
    cuda::drop_capture(stream.handle());
    throw;
  }
  Graph captured;
  captured.handle_ = cuda::end_capture(stream.handle());
  *this = std::move(captured);
}

void Graph::launch(Stream& stream) const { cuda::launch(handle_, stream.handle()); }

}  // namespace mtl
