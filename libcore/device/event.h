// Events order commands on different streams, and also order commands with the host. On the cpu and on meta, operators
// are complete when the call returns, so an event only stores the time.
#pragma once

#include <memory>

#include "device/stream.h"

namespace mtl {

class Event {
 public:
  enum class Kind { order, time };

  explicit Event(Device device, Kind kind = Kind::order);

  /// Records the event after all commands enqueued on the stream so far.
  void record(Stream& stream);
  /// Makes later commands on `stream` run after the event.
  void order(Stream& stream) const;
  /// Blocks the host until the event is reached. Returns immediately if the event was never recorded.
  void wait() const;
  /// Returns true if the event is reached or was never recorded.
  bool done() const;
  /// Returns milliseconds from `begin` to this event. Both events must have Kind::time and must have been reached.
  double milliseconds_since(const Event& begin) const;

 private:
  struct Free {
    void operator()(cuda::EventHandle handle) const { cuda::free_event(handle); }
  };
  std::unique_ptr<CUevent_st, Free> handle_;  // null on the cpu and on meta
  double seconds_ = 0;                        // time of record(), on the cpu and on meta
};

}  // namespace mtl
