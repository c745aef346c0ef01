// Order between streams, and between a stream and the host. On the cpu and on meta an operator is done when it returns:
// there an event only takes the time.
#pragma once

#include "device/stream.h"

namespace mtl {

class Event {
 public:
  enum class Kind { order, time };

  explicit Event(Device device, Kind kind = Kind::order);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  /// Marks the place after everything that the stream was given.
  void record(Stream& stream);
  /// Later commands of `stream` run after the marked place.
  void order(Stream& stream) const;
  /// The host waits until the marked place is reached.
  void wait() const;
  /// Whether it is reached. True if none was marked.
  bool done() const;
  /// Milliseconds from `begin` to this event. Both are of Kind::time, and reached.
  double milliseconds_since(const Event& begin) const;

 private:
  cuda::EventHandle handle_ = nullptr;  // null on the cpu and on meta
  double seconds_ = 0;                  // there, when it was recorded
};

}  // namespace mtl
