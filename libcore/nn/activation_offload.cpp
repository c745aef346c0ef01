#include "nn/activation_offload.h"

#include <algorithm>

#include "device/copy.h"

namespace mtl {

ActivationOffload::ActivationOffload(Stream& copies, int layers, std::size_t range_bytes, Part ring, Part host)
    : copies_(copies), computed_(copies.device()) {
  const Shape bytes{static_cast<std::int64_t>(range_bytes)};
  for (int i = 0; i < kRanges; ++i) {
    const std::size_t offset = ring.offset + i * range_bytes;
    ring_.push_back(
        {Arena(copies.device(), "activations of an offloaded layer", ring.memory, offset, range_bytes), {}});
    if (!copies.is_meta()) ring_.back().all = ring.memory.tensor(DType::u8, bytes, offset);
  }
  for (int p = 0; p < layers; ++p) {
    const Tensor on_host =
        copies.is_meta() ? Tensor() : host.memory.tensor(DType::u8, bytes, host.offset + p * range_bytes);
    offloaded_.push_back({on_host, Event(copies.device()), Event(copies.device())});
  }
}

Arena& ActivationOffload::begin_forward(Stream& compute, int p) {
  if (p >= kRanges) offloaded_[p - kRanges].stored.order(compute);
  Arena& arena = ring_[p % kRanges].arena;
  arena.clear();
  return arena;
}

void ActivationOffload::end_forward(Stream& compute, int p) {
  if (p >= layers() || copies_.is_meta()) return;
  const Layer& layer = offloaded_[p];
  computed_.record(compute);
  computed_.order(copies_);
  copy_to_pinned(copies_, layer.host.raw_bytes(), ring_[p % kRanges].all);
  offloaded_[p].stored.record(copies_);
}

void ActivationOffload::begin_backward(Stream& compute, int p) {
  if (p < layers()) offloaded_[p].fetched.order(compute);
}

void ActivationOffload::end_backward(Stream& compute, int p) {
  if (p < kRanges || copies_.is_meta()) return;
  Layer& back = offloaded_[p - kRanges];
  computed_.record(compute);
  computed_.order(copies_);
  copy_from_pinned(copies_, ring_[p % kRanges].all, back.host.raw_bytes());
  back.fetched.record(copies_);
}

std::size_t ActivationOffload::range_peak() const {
  std::size_t peak = 0;
  for (const Range& range : ring_) peak = std::max(peak, range.arena.peak());
  return peak;
}

}  // namespace mtl
