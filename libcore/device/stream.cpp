#include "device/stream.h"

namespace mtl {

Stream::Stream(Device device, int threads, Device target)
    : device_(device),
      target_(device == Device::meta ? target : device),
      threads_(threads),
      handle_(device == Device::cuda ? cuda::open_stream() : nullptr) {}

Stream::~Stream() {
  cache_.reset();  // before the stream, which may still be running commands
  attention_cache_.reset();
  if (handle_ != nullptr) cuda::close_stream(handle_);
}

void Stream::synchronize() const {
  if (handle_ != nullptr) cuda::synchronize(handle_);
}

}  // namespace mtl
