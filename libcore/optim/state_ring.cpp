#include "optim/state_ring.h"

#include <algorithm>
#include <utility>

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
  if (range.param.exists()) part.param = range.param.flat(begin, count);
  part.grad = range.grad.flat(begin, count);
  for (Tensor& state : part.states) state = state.flat(begin, count);
  if (range.copy.exists()) part.copy = range.copy.flat(begin, count);
  part.elements.skipped += begin;
  return part;
}

}  // namespace

StateRing::StateRing(const ParamMemory& params, const std::vector<UpdateRange>& ranges, Device target,
                     std::int64_t piece)
    : up_(params.device()),
      down_(params.device()),
      begun_(params.device()),
      slots_{Slot(params.device()), Slot(params.device()), Slot(params.device())} {
  std::size_t element_bytes = 0;  // bytes per element, summed over all rows that move
  bool in_files = false;
  for (const Storage& row : params.table()) {
    const bool moves = row.space != Space::device;
    if (row.role == StorageRole::states) moves_states_ = moves;
    if (row.role == StorageRole::main_weights) moves_main_ = moves;
    if (moves) element_bytes += size_of(row.dtype);
    in_files |= row.space == Space::file;
  }
  const std::int64_t longest = (longest_range(params) + kAlign - 1) / kAlign * kAlign;
  piece_ = std::min(piece, longest);
  slot_bytes_ = element_bytes * piece_;
  if (!in_files || target != Device::cpu) memory_ = Buffer(params.device(), slots_.size() * slot_bytes_);
  if (!in_files) return;
  staging_ = Buffer(params.device(), slots_.size() * slot_bytes_, Space::host);
  if (params.device() != Device::meta) read_ahead(params, ranges);
}

/// Starts the threads that move the pieces of `ranges` between files and staging_.
void StateRing::read_ahead(const ParamMemory& params, const std::vector<UpdateRange>& ranges) {
  std::vector<FileRing::Piece> pieces;
  for (const UpdateRange& range : ranges) {
    const std::int64_t total = range.grad.numel();
    for (std::int64_t begin = 0; begin < total; begin += piece_) {
      UpdateRange part = part_of(range, begin, std::min(piece_, total - begin));
      const std::vector<Moved> moved = place_in_slot(staging_, std::ssize(pieces), part);
      FileRing::Piece& piece = pieces.emplace_back();
      for (const Moved& each : moved) piece.push_back({params.file_of(each.outside), each.outside, each.inside});
    }
  }
  files_ = std::make_unique<FileRing>(std::move(pieces), static_cast<int>(slots_.size()));
}

void StateRing::begin(Stream& compute) {
  begun_.record(compute);
  for (Slot& slot : slots_) slot.in_use = false;
  next_ = released_ = 0;
  if (files_ != nullptr) files_->begin();
}

/// Replaces the tensors in `piece` that are outside the device with tensors in the piece's slot in `memory`. Returns
/// each of them with its replacement.
std::vector<StateRing::Moved> StateRing::place_in_slot(const Buffer& memory, std::int64_t number,
                                                       UpdateRange& piece) const {
  std::vector<Moved> moved;
  std::size_t offset = number % slots_.size() * slot_bytes_;
  auto replace = [&](Tensor& tensor) {
    const Tensor copy = memory.tensor(tensor.dtype(), {tensor.numel()}, offset);
    offset += piece_ * size_of(tensor.dtype());
    moved.push_back({std::exchange(tensor, copy), copy});
  };
  if (moves_main_ && piece.param.exists()) replace(piece.param);
  for (Tensor& state : piece.states)
    if (moves_states_) replace(state);
  return moved;
}

void StateRing::update(Stream& compute, const UpdateRange& range, const std::function<void(const UpdateRange&)>& rule) {
  const std::int64_t total = range.grad.numel();
  for (std::int64_t begin = 0; begin < total; begin += piece_) {
    UpdateRange piece = part_of(range, begin, std::min(piece_, total - begin));
    const std::int64_t number = next_++;
    Slot& slot = slots_[number % slots_.size()];
    if (files_ != nullptr) {
      place_in_slot(staging_, number, piece);
      files_->wait_read(number);
    }
    std::vector<Moved> moved;  // with states in files, empty on the cpu
    if (memory_.bytes() > 0) moved = place_in_slot(memory_, number, piece);
    (slot.in_use ? slot.returned : begun_).order(up_);
    for (const Moved& tensor : moved) copy_from_pinned(up_, tensor.inside, tensor.outside.raw_bytes());
    slot.arrived.record(up_);
    slot.arrived.order(compute);
    rule(piece);
    slot.updated.record(compute);
    slot.updated.order(down_);
    for (const Moved& tensor : moved) copy_to_pinned(down_, tensor.outside.raw_bytes(), tensor.inside);
    slot.returned.record(down_);
    slot.in_use = true;
    // A device is still busy with this piece, so the host waits for the one before.
    if (files_ != nullptr) release_before(moved.empty() ? next_ : number);
  }
}

/// Lets files_ write the pieces before `number`.
void StateRing::release_before(std::int64_t number) {
  for (; released_ < number; ++released_) {
    slots_[released_ % slots_.size()].returned.wait();
    files_->release(released_);
  }
}

void StateRing::end(Stream& compute) {
  for (const Slot& slot : slots_) {
    if (slot.in_use) slot.returned.order(compute);
  }
  if (files_ == nullptr) return;
  release_before(next_);
  files_->end();
}

}  // namespace mtl
