// Updates where main weights and the update rule's states are in pinned memory of the host (--optimizer-cpu-offload).
//
// A range is updated piece by piece. A piece's state comes to the device on a stream for copies upwards, is updated
// there by the same operator as a state that stays on the device, and so to the same bits, and goes back on a stream
// for copies downwards. Pieces take the slots of a ring in turn, so that both copies of neighbours and the update run
// at the same time; a link works in both directions at once.
//
// AdamW on the host, where the state is, would send less over the link: 4 to 6 bytes a parameter (gradients down,
// weights up) instead of 12 each way. But the host's memory, which all its ranks share, moves the same 24 bytes a
// parameter in either case. A link of 50 GB/s each way (PCIe 5 x16) takes 0.24 ns a parameter; the host would need
// 100 GB/s of memory bandwidth for each GPU to be as fast, and its AdamW would give other bits.
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
  static constexpr std::int64_t kPiece = std::int64_t{1} << 21;  // elements: copies of 8 MiB reach a link's bandwidth
  static constexpr std::int64_t kAlign = 64;

  /// Pieces have at most `piece` elements, a multiple of kAlign.
  explicit StateRing(const ParamStore& params, std::int64_t piece = kPiece);

  /// Bytes of the device's memory that the ring takes.
  std::size_t bytes() const { return memory_.bytes(); }
  /// Before the updates of a step: copies begin after what `compute` was given.
  void begin(Stream& compute);
  /// Calls `rule`, which gives its operators to `compute`, for each piece of the range.
  void update(Stream& compute, const UpdateRange& range, const std::function<void(const UpdateRange&)>& rule);
  /// After them: `compute` continues when all states are on the host.
  void end(Stream& compute);

 private:
  struct Slot {
    explicit Slot(Device device) : arrived(device), updated(device), returned(device) {}
    std::size_t offset = 0;  // in memory_
    Event arrived, updated, returned;
    bool in_use = false;  // by this step
  };
  /// A tensor on the host and its copy.
  struct Moved {
    Tensor host, device;
  };
  std::vector<Moved> bring(Slot& slot, UpdateRange& piece);

  bool moves_main_ = false;  // they are on the host
  std::vector<bool> moves_state_;
  std::int64_t piece_ = 0;
  Buffer memory_;
  Stream up_, down_;
  Event begun_;
  std::array<Slot, 3> slots_;
  std::size_t next_ = 0;
};

}  // namespace mtl
