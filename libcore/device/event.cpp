#include "device/event.h"

#include "base/console.h"

namespace mtl {

Event::Event(Device device, Kind kind)
    : handle_(device == Device::cuda ? cuda::make_event(kind == Kind::time) : nullptr) {}

void Event::record(Stream& stream) {
  if (handle_ == nullptr) {
    seconds_ = now_seconds();
  } else {
    cuda::record(handle_.get(), stream.handle());
  }
}

void Event::order(Stream& stream) const {
  if (handle_ != nullptr) cuda::order(handle_.get(), stream.handle());
}

void Event::wait() const {
  if (handle_ != nullptr) cuda::synchronize(handle_.get());
}

bool Event::done() const { return handle_ == nullptr || cuda::is_done(handle_.get()); }

double Event::milliseconds_since(const Event& begin) const {
  if (handle_ == nullptr) return (seconds_ - begin.seconds_) * 1e3;
  return double{cuda::milliseconds_between(begin.handle_.get(), handle_.get())};
}

}  // namespace mtl
