// Activations of a chunk's first layers wait for their backward in pinned host memory.
//
// The activations of a layer form one range, so that each direction takes one copy. The layers share a ring of two
// ranges: while a layer computes in one, the other is copied on a separate stream. The last two layers in the ring need
// no copy: backward finds them there. With N offloaded layers, N + 2 layers use the ring, layer p the range p % 2:
//
//   forward p:   waits until p - 2 is on the host; computes; p goes to the host (p < N)
//   backward p:  waits until p is back (p < N); computes; p - 2 comes back
//
// Each micro-batch in flight takes N ranges less of the device's memory. Results are bit-identical: layers find their
// tensors at the addresses where forward made them. Every wait is for a copy of the same pass, so that a pass can be
// captured as a graph.
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
  /// For one micro-batch in flight: the activations of `layers` layers go to `host`, in Space::host; the ranges are in
  /// `ring`. A layer and a range take range_bytes each. `copies` and both buffers must outlive this object.
  ActivationOffload(Stream& copies, int layers, std::size_t range_bytes, Part ring, Part host);

  /// Call before and after the forward of layer p. begin_forward returns the arena for what backward needs.
  Arena& begin_forward(Stream& compute, int p);
  void end_forward(Stream& compute, int p);
  /// Call before and after the backward of layer p.
  void begin_backward(Stream& compute, int p);
  void end_backward(Stream& compute, int p);
  /// Returns N, the number of offloaded layers.
  int layers() const { return static_cast<int>(offloaded_.size()); }
  /// Returns the most bytes that a layer has used so far: on meta, range_bytes of the plan.
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
