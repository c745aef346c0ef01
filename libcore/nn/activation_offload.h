// Keeps the activations of a chunk's first layers in pinned host memory until backward needs them.
//
// The activations of a layer form one contiguous range, so that one copy moves them to the host and one copy moves them
// back. The layers share a ring of two ranges: while a layer computes in one range, the other range is copied on a
// separate stream. The last two layers that use the ring need no copy, because their activations are still in the ring
// when backward begins. With N offloaded layers, N + 2 layers use the ring, and layer p uses range p % 2:
//
//   forward p:   waits until p - 2 is on the host; computes; p goes to the host (p < N)
//   backward p:  waits until p is back (p < N); computes; p - 2 comes back
//
// For each micro-batch in flight, this saves N ranges of device memory. Results are bit-identical, because backward
// finds the tensors at the addresses at which forward created them. A pass waits only for copies that the same pass
// started, so that a pass can be captured as a graph.
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
  /// Serves one micro-batch in flight. Activations of `layers` layers are copied to `host`, which must be in
  /// Space::host. The ranges are in `ring`. `host` needs range_bytes per layer, and `ring` needs range_bytes per range.
  /// `copies` and both buffers must outlive this object.
  ActivationOffload(Stream& copies, int layers, std::size_t range_bytes, Part ring, Part host);

  /// Call before and after the forward of layer p. begin_forward() returns the arena for tensors that backward needs.
  Arena& begin_forward(Stream& compute, int p);
  void end_forward(Stream& compute, int p);
  /// Call before and after the backward of layer p.
  void begin_backward(Stream& compute, int p);
  void end_backward(Stream& compute, int p);
  /// Returns N, the number of offloaded layers.
  int layers() const { return static_cast<int>(offloaded_.size()); }
  /// Returns the largest number of bytes that a layer has used so far. On the meta device, this is the plan's
  /// range_bytes.
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
