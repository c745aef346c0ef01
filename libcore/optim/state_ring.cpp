#include "optim/state_ring.h"

#include <algorithm>

#include "device/copy.h"

namespace mtl {

namespace {

/// Returns the length, in elements, of the longest range that a single update covers.
std::int64_t longest_range(const ParamMemory& params) {
  std::int64_t longest = 0;
  for (const Bucket& bucket : params.buckets()) longest = std::max(longest, bucket.owned_end - bucket.owned_begin);
  return longest;
}

UpdateRange part_of(const UpdateRange& range, std::int64_t begin, std::int64_t count) {
  UpdateRange part = range;
  part.param = range.param.flat(begin, count);
  part.grad = range.grad.flat(begin, count);
  for (Tensor& state : part.states) state = state.flat(begin, count);
  if (range.copy.exists()) part.copy = range.copy.flat(begin, count);
  part.elements.skipped += begin;
  return part;
}

}  // namespace

StateRing::StateRing(const ParamMemory& params, std::int64_t piece)
    : up_(params.device()),
      down_(params.device()),
      begun_(params.device()),
      slots_{Slot(params.device()), Slot(params.device()), Slot(params.device())} {
  std::size_t element_bytes = 0;  // bytes per element, summed over all rows in host memory
  for (const Storage& row : params.table()) {
    const bool moves = row.space == Space::host;
    if (row.role == StorageRole::states) moves_state_.push_back(moves);
    if (row.role == StorageRole::main_weights) moves_main_ = moves;
    if (moves) element_bytes += size_of(row.dtype);
  }
  const std::int64_t longest = (longest_range(params) + kAlign - 1) / kAlign * kAlign;
  piece_ = std::min(piece, longest);
  const std::size_t slot_bytes = element_bytes * piece_;
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].offset = i * slot_bytes;
  memory_ = Buffer(params.device(), slots_.size() * slot_bytes);
}

void StateRing::begin(Stream& compute) {
  begun_.record(compute);
  for (Slot& slot : slots_) slot.in_use = false;
}

/// Replaces the host tensors in `piece` with tensors in the slot's memory. Returns each host tensor with its
/// replacement.
std::vector<StateRing::Moved> StateRing::place_in_slot(Slot& slot, UpdateRange& piece) {
  std::vector<Moved> moved;
  std::size_t offset = slot.offset;
  auto replace = [&](Tensor& tensor) {
    const Tensor copy = memory_.tensor(tensor.dtype(), {tensor.numel()}, offset);
    offset += piece_ * size_of(tensor.dtype());
    moved.push_back({std::exchange(tensor, copy), copy});
  };
  if (moves_main_) replace(piece.param);
  for (std::size_t i = 0; i < piece.states.size(); ++i) {
    if (moves_state_[i]) replace(piece.states[i]);
  }
  return moved;
}

void StateRing::update(Stream& compute, const UpdateRange& range, const std::function<void(const UpdateRange&)>& rule) {
  const std::int64_t total = range.param.numel();
  for (std::int64_t begin = 0; begin < total; begin += piece_) {
    UpdateRange piece = part_of(range, begin, std::min(piece_, total - begin));
    Slot& slot = slots_[next_++ % slots_.size()];
    const std::vector<Moved> moved = place_in_slot(slot, piece);
    (slot.in_use ? slot.returned : begun_).order(up_);
    for (const Moved& tensor : moved)
      copy_from_pinned(up_, tensor.device, {static_cast<const std::byte*>(tensor.host.raw()), tensor.host.bytes()});
    slot.arrived.record(up_);
    slot.arrived.order(compute);
    rule(piece);
    slot.updated.record(compute);
    slot.updated.order(down_);
    for (const Moved& tensor : moved)
      copy_to_pinned(down_, {static_cast<std::byte*>(tensor.host.raw()), tensor.host.bytes()}, tensor.device);
    slot.returned.record(down_);
    slot.in_use = true;
  }
}

void StateRing::end(Stream& compute) {
  for (const Slot& slot : slots_) {
    if (slot.in_use) slot.returned.order(compute);
  }
}

}  // namespace mtl
