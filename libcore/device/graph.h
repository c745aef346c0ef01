// A CUDA graph: commands captured from a stream once, and launched again with one call.
#pragma once

#include <functional>

#include "device/stream.h"

namespace mtl {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  bool exists() const { return handle_ != nullptr; }
  /// Records, without running them, the commands that `body` enqueues on the stream, and on streams that `body` forks
  /// from it and joins to it again by events (device/event.h). Addresses and sizes are those of the capture; `body`
  /// must not wait for the stream, make or free buffers, or read the results of its commands. Rethrows exceptions of
  /// `body`.
  void capture(Stream& stream, const std::function<void()>& body);
  /// Runs the captured commands after the stream's earlier commands.
  void launch(Stream& stream) const;

 private:
  cuda::GraphHandle handle_ = nullptr;
};

}  // namespace mtl
