#include "device/copy.h"

#include <cstring>

#include "device/cuda_memory.h"

namespace mtl {

void copy_from_pinned(Stream& stream, const Tensor& to, std::span<const std::byte> from) {
  require(to.bytes() == from.size(), "host to device: ", from.size(), " bytes for ", to.bytes());
  if (stream.is_meta() || from.empty()) return;
  if (stream.device() == Device::cuda) return cuda::copy_from_host(stream.handle(), to.raw(), from.data(), from.size());
  std::memcpy(to.raw(), from.data(), from.size());
}

void copy_to_pinned(Stream& stream, std::span<std::byte> to, const Tensor& from) {
  require(from.bytes() == to.size(), "device to host: ", to.size(), " bytes for ", from.bytes());
  if (stream.is_meta() || to.empty()) return;
  if (stream.device() == Device::cuda) return cuda::copy_to_host(stream.handle(), to.data(), from.raw(), to.size());
  std::memcpy(to.data(), from.raw(), to.size());
}

void copy_from_host(Stream& stream, const Tensor& to, std::span<const std::byte> from) {
  copy_from_pinned(stream, to, from);
  stream.synchronize();
}

void copy_to_host(Stream& stream, std::span<std::byte> to, const Tensor& from) {
  copy_to_pinned(stream, to, from);
  stream.synchronize();
}

void copy_on_device(Stream& stream, const Tensor& to, const Tensor& from) {
  require(to.bytes() == from.bytes(), "a copy of ", from.shape(), " to ", to.shape());
  if (stream.is_meta() || to.raw() == from.raw() || to.bytes() == 0) return;
  if (stream.device() == Device::cuda) return cuda::copy_within(stream.handle(), to.raw(), from.raw(), to.bytes());
  std::memcpy(to.raw(), from.raw(), to.bytes());
}

void receive(std::span<std::byte> to, Location from, const Tensor& tensor) {
  require(tensor.bytes() == to.size(), "to the host: ", to.size(), " bytes for ", tensor.bytes());
  if (to.empty()) return;
  if (from.file != nullptr) return from.file->read(tensor.raw(), to);
  if (from.device == Device::cuda) return cuda::copy_to_host(to.data(), tensor.raw(), to.size());
  std::memcpy(to.data(), tensor.raw(), to.size());
}

HostView::HostView(Location location, const Tensor& tensor) : location_(location), original_(tensor), view_(tensor) {
  if (!location.is_remote()) return;
  copy_.resize(tensor.bytes());
  view_ = Tensor(copy_.data(), tensor.dtype(), tensor.shape());
}

void HostView::receive() {
  if (!copy_.empty()) mtl::receive(copy_, location_, original_);
}

void HostView::send() const {
  if (copy_.empty()) return;
  if (location_.file == nullptr) return cuda::copy_from_host(original_.raw(), copy_.data(), copy_.size());
  location_.file->write(original_.raw(), copy_);
  location_.file->settle(original_.raw(), copy_.size());
}

}  // namespace mtl
