// Updates of main weights and states that are in pinned memory of the host (--optimizer-cpu-offload).
//
// A range is updated piece by piece. One stream copies a piece's state to the device; the operator that updates states
// on the device updates it there, to the same bits; another stream copies it back. Pieces take the slots of a ring in
// turn, so that a piece's update overlaps with the copies of its neighbors, in both directions of the link at once.
//
// AdamW on the host, where the state is, would send less over the link: 4 to 6 bytes per parameter (gradients down,
// weights up) instead of 12 each way. But the host's memory, which all ranks of the host share, moves the same 24 bytes
// per parameter in either case. A link of 50 GB/s each way (PCIe 5 x16) takes 0.24 ns per parameter; the host would
// need 100 GB/s of memory bandwidth per GPU to be as fast, and its AdamW would give different bits.
#pragma once

#include <array>
#include <functional>

#include "device/event.h"
#include "device/memory.h"
#include "optim/param_store.h"
#include "optim/update_rule.h"

namespace mtl {

class StateRing {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 21;  // elements: copies of 8 MiB saturate the link
  static constexpr std::int64_t kAlign = 64;

  /// Pieces have at most `piece` elements, a multiple of kAlign.
  explicit StateRing(const ParamStore& params, std::int64_t piece = kPiece);

  /// Bytes of the device's memory that the ring takes.
  std::size_t bytes() const { return memory_.bytes(); }
  /// Call before the updates of a step: copies begin after the commands of `compute` so far.
  void begin(Stream& compute);
  /// Calls `rule`, which enqueues its operators on `compute`, for each piece of the range.
  void update(Stream& compute, const UpdateRange& range, const std::function<void(const UpdateRange&)>& rule);
  /// Call after the updates of a step: `compute` continues when all states are back on the host.
  void end(Stream& compute);

 private:
  struct Slot {
    explicit Slot(Device device) : arrived(device), updated(device), returned(device) {}
    std::size_t offset = 0;  // in memory_
    Event arrived, updated, returned;
    bool in_use = false;  // by this step
  };
  /// A tensor on the host, and its copy in a slot.
  struct Moved {
    Tensor host, device;
  };
  std::vector<Moved> place_in_slot(Slot& slot, UpdateRange& piece);

  bool moves_main_ = false;  // main weights are on the host
  std::vector<bool> moves_state_;
  std::int64_t piece_ = 0;
  Buffer memory_;
  Stream up_, down_;
  Event begun_;
  std::array<Slot, 3> slots_;
  std::size_t next_ = 0;
};

}  // namespace mtl
