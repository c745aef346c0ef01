// Updates main weights and states that are in pinned host memory (--optimizer-cpu-offload).
//
// A range is updated piece by piece. One stream copies a piece's state to the device. Then the same operator that
// updates states in device memory updates the piece, so results are bit-identical. A second stream copies the piece
// back to the host. The pieces take turns using the slots in a ring, so that updating one piece overlaps with copying
// its neighbors in both directions.
//
// Running AdamW on the host, where the state is, would transfer less: 4 to 6 bytes per parameter (gradients to the
// host, weights to the device) instead of 12 bytes in each direction. However, host memory, which all ranks on the host
// share, must move the same 24 bytes per parameter in either case. A 50 GB/s link (PCIe 5 x16) takes 0.24 ns per
// parameter in each direction. To be as fast, the host would need 100 GB/s of memory bandwidth per GPU, and AdamW on
// the host would not be bit-identical.
#pragma once

#include <array>
#include <functional>

#include "device/event.h"
#include "device/memory.h"
#include "optim/param_memory.h"
#include "optim/update_rule.h"

namespace mtl {

class StateRing {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 21;  // in elements; 8-MiB copies saturate the link
  static constexpr std::int64_t kAlign = 64;

  /// Pieces have at most `piece` elements, which must be a multiple of kAlign.
  explicit StateRing(const ParamMemory& params, std::int64_t piece = kPiece);

  /// Returns the size of the ring in device memory, in bytes.
  std::size_t bytes() const { return memory_.bytes(); }
  /// Must be called before a step's updates. Copies wait for all commands already enqueued on `compute`.
  void begin(Stream& compute);
  /// Calls `rule` for each piece of `range`. `rule` must enqueue its operators on `compute`.
  void update(Stream& compute, const UpdateRange& range, const std::function<void(const UpdateRange&)>& rule);
  /// Must be called after a step's updates. Makes `compute` wait until all states are back in host memory.
  void end(Stream& compute);

 private:
  struct Slot {
    explicit Slot(Device device) : arrived(device), updated(device), returned(device) {}
    std::size_t offset = 0;  // in bytes, in memory_
    Event arrived, updated, returned;
    bool in_use = false;  // in use in the current step
  };
  /// A tensor in host memory, and its copy in a slot.
  struct Moved {
    Tensor host, device;
  };
  std::vector<Moved> place_in_slot(Slot& slot, UpdateRange& piece);

  bool moves_main_ = false;  // true if the main weights are in host memory
  std::vector<bool> moves_state_;
  std::int64_t piece_ = 0;
  Buffer memory_;
  Stream up_, down_;
  Event begun_;
  std::array<Slot, 3> slots_;
  std::size_t next_ = 0;
};

}  // namespace mtl
