// Keeps the activations of a chunk's first layers in pinned host memory until backward needs them.
//
// Each layer's activations form a contiguous range, so one copy moves them to the host and one copy moves them back.
// The layers share a ring of two ranges: while a layer computes in one range, the other is copied on a separate stream.
// The last two layers that use the ring need no copy, because their activations are still there when backward starts.
// With N offloaded layers, N + 2 layers use the ring, and layer p uses range p % 2:
//
//   forward p:   waits until p - 2 is on the host; computes; p goes to the host (p < N)
//   backward p:  waits until p is back (p < N); computes; p - 2 comes back
//
// This saves N ranges of device memory per micro-batch in flight. Results are bit-identical, because backward finds the
// tensors where forward created them. A pass waits only for copies that it started itself, so it can be captured as a
// graph.
#pragma once

#include <cstddef>
#include <vector>

#include "device/event.h"
#include "device/memory.h"

namespace mtl {

class ActivationOffload {
 public:
  static constexpr int kRanges = 2;

  /// A part of a Buffer.
  struct Part {
    const Buffer& memory;
    std::size_t offset;
  };
  /// Handles one micro-batch in flight. Copies the activations of `layers` layers to `host`, which must be in
  /// Space::host. `host` needs range_bytes per layer, and `ring`, which holds the ranges, needs range_bytes per range.
  /// The caller must keep `copies` and both buffers alive.
  ActivationOffload(Stream& copies, int layers, std::size_t range_bytes, Part ring, Part host);

  /// Must be called before and after layer p's forward. begin_forward() returns the arena for tensors that backward
  /// needs.
  Arena& begin_forward(Stream& compute, int p);
  void end_forward(Stream& compute, int p);
  /// Must be called before and after layer p's backward.
  void begin_backward(Stream& compute, int p);
  void end_backward(Stream& compute, int p);
  /// Returns N, the number of offloaded layers.
  int layers() const { return static_cast<int>(offloaded_.size()); }
  /// Returns the most bytes that any layer has used so far. On the meta device, this gives the plan's range_bytes.
  std::size_t range_peak() const;

 private:
  struct Range {
    Arena arena;
    Tensor all;  // the arena's memory as one tensor; absent on meta
  };
  struct Layer {
    Tensor host;
    Event stored, fetched;
  };

  Stream& copies_;
  std::vector<Range> ring_;
  std::vector<Layer> offloaded_;
  Event computed_;
};

}  // namespace mtl
