// Updates main weights and states that are in pinned host memory (--optimizer-cpu-offload) or in files
// (--offload-optimizer).
//
// A range is updated piece by piece. One stream copies a piece's state to the device. Then the same operator that
// updates states in device memory updates the piece, so results are bit-identical. A second stream copies the piece
// back to the host. The pieces take turns using the slots in a ring, so that updating one piece overlaps with copying
// its neighbors in both directions.
//
// If the state is in files, a FileRing moves pieces between them and slots in host memory, pinned for a GPU. There the
// host waits in update() until a piece is read, so the update is not part of a CUDA graph. On the CPU, the operator
// updates the pieces in these slots. Measured on a virtual disk with pieces of 24 MiB: 1.1 to 1.4 GB/s in each
// direction, a loop of the same reads and writes .9 to 1.1. Updating in a mapping of the files, with madvise() ahead
// and behind, gave .3 to .5 (a page fault for every page), and O_DIRECT .5 to 1.1.
//
// Running AdamW on the host, where the state is, would transfer less: 4 to 6 bytes per parameter (gradients to the
// host, weights to the device) instead of 12 bytes in each direction. However, host memory, which all ranks on the host
// share, must move the same 24 bytes per parameter in either case. A 50 GB/s link (PCIe 5 x16) takes 0.24 ns per
// parameter in each direction. To be as fast, the host would need 100 GB/s of memory bandwidth per GPU, and AdamW on
// the host would not be bit-identical.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "device/event.h"
#include "device/memory.h"
#include "optim/file_ring.h"
#include "optim/param_memory.h"
#include "optim/update_rule.h"

namespace mtl {

class StateRing {
 public:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 21;  // in elements; 8-MiB copies saturate the link
  static constexpr std::int64_t kAlign = 64;

  /// `ranges` are those that a step updates, in order. Pieces have at most `piece` elements, which must be a multiple
  /// of kAlign. `target` is the device of the run, for plans.
  StateRing(const ParamMemory& params, const std::vector<UpdateRange>& ranges, Device target,
            std::int64_t piece = kPiece);

  /// Returns the size of the ring in device memory, in bytes. On the CPU, it is 0 if the state is in files.
  std::size_t device_bytes() const { return memory_.bytes(); }
  /// Returns the size of the ring between files and the device in bytes.
  std::size_t host_bytes() const { return staging_.bytes(); }
  /// Must be called before a step's updates. Copies wait for all commands already enqueued on `compute`.
  void begin(Stream& compute);
  /// Calls `rule` for each piece of `range`. `rule` must enqueue its operators on `compute`.
  void update(Stream& compute, const UpdateRange& range, const std::function<void(const UpdateRange&)>& rule);
  /// Must be called after a step's updates. Makes `compute` wait until all states are back in host memory, or waits
  /// until they are back in files.
  void end(Stream& compute);

 private:
  struct Slot {
    explicit Slot(Device device) : arrived(device), updated(device), returned(device) {}
    Event arrived, updated, returned;
    bool in_use = false;  // in use in the current step
  };
  /// A tensor outside the ring, and its copy in a slot.
  struct Moved {
    Tensor outside, inside;
  };
  std::vector<Moved> place_in_slot(const Buffer& memory, std::int64_t number, UpdateRange& piece) const;
  void read_ahead(const ParamMemory& params, const std::vector<UpdateRange>& ranges);
  void release_before(std::int64_t number);

  bool moves_main_ = false;  // true if the main weights are in host memory or in a file
  bool moves_states_ = false;
  std::int64_t piece_ = 0;  // in elements
  std::size_t slot_bytes_ = 0;
  Buffer memory_, staging_;  // slots on the device, and between files and the device
  Stream up_, down_;
  Event begun_;
  std::array<Slot, 3> slots_;
  std::int64_t next_ = 0;            // the number of the next piece in this step
  std::int64_t released_ = 0;        // pieces that files_ may write
  std::unique_ptr<FileRing> files_;  // null unless states are in files
};

}  // namespace mtl
