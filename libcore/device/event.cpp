#include "device/event.h"

#include <utility>

#include "base/console.h"

namespace mtl {

Event::Event(Device device, Kind kind)
    : handle_(device == Device::cuda ? cuda::make_event(kind == Kind::time) : nullptr) {}
Event::~Event() {
  if (handle_ != nullptr) cuda::free_event(handle_);
}
Event::Event(Event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), seconds_(std::exchange(other.seconds_, 0)) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(seconds_, other.seconds_);
  return *this;
}

void Event::record(Stream& stream) {
  if (handle_ == nullptr) {
    seconds_ = now_seconds();
  } else {
    cuda::record(handle_, stream.handle());
  }
}

void Event::order(Stream& stream) const {
  if (handle_ != nullptr) cuda::order(handle_, stream.handle());
}

void Event::wait() const {
  if (handle_ != nullptr) cuda::synchronize(handle_);
}

bool Event::done() const { return handle_ == nullptr || cuda::is_done(handle_); }

double Event::milliseconds_since(const Event& begin) const {
  if (handle_ == nullptr) return (seconds_ - begin.seconds_) * 1e3;
  return double{cuda::milliseconds_between(begin.handle_, handle_)};
}

}  // namespace mtl
