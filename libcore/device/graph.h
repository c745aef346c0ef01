// A CUDA graph: commands captured from a stream once, which can then be launched many times with a single call each.
#pragma once

#include <functional>
#include <memory>

#include "device/stream.h"

namespace mtl {

class Graph {
 public:
  bool exists() const { return handle_ != nullptr; }
  /// Records the commands that `body` enqueues on `stream`, without running them. Also records commands on other
  /// streams if `body` uses events (device/event.h) to fork them from `stream` and to join them again. A launch uses
  /// the addresses and sizes from the capture. `body` must not wait for the stream, allocate or free buffers, or read
  /// the commands' results. Rethrows exceptions from `body`.
  void capture(Stream& stream, const std::function<void()>& body);
  /// Runs the captured commands after the stream's earlier commands.
  void launch(Stream& stream) const;

 private:
  struct Free {
    void operator()(cuda::GraphHandle handle) const { cuda::free_graph(handle); }
  };
  std::unique_ptr<CUgraphExec_st, Free> handle_;
};

}  // namespace mtl
