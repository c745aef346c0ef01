// All copies between the host and a device. The host never reads or writes device memory directly.
//
// A training step copies on a stream, after the stream's earlier commands. Other code (initialization, loading, saving,
// generation) uses a HostView, which waits for the device. On the cpu, a HostView is free, because tensors are already
// in host memory, except for those in files. On meta, nothing is copied.
#pragma once

#include <span>
#include <vector>

#include "device/file_memory.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// Copies from host to device. Sizes must be equal. `from` may change once the function has returned.
void copy_from_host(Stream& stream, const Tensor& to, std::span<const std::byte> from);
/// Copies from device to host. Sizes must be equal. The copy is complete on return.
void copy_to_host(Stream& stream, std::span<std::byte> to, const Tensor& from);
/// Copies between the device and pinned memory (a Buffer in Space::host) without blocking the host. The host must not
/// access the pinned memory until the stream has completed the copy (device/event.h). On the cpu, the copy is complete
/// on return.
void copy_from_pinned(Stream& stream, const Tensor& to, std::span<const std::byte> from);
void copy_to_pinned(Stream& stream, std::span<std::byte> to, const Tensor& from);
/// Copies on the device. The tensors must have equal byte counts, and either be identical or not overlap.
void copy_on_device(Stream& stream, const Tensor& to, const Tensor& from);

template <class T>
void copy_from_host(Stream& stream, const Tensor& to, const std::vector<T>& from) {
  require(to.dtype() == dtype_of<T>(), "a tensor of ", name_of(to.dtype()), " was filled with ",
          name_of(dtype_of<T>()));
  copy_from_host(stream, to, std::as_bytes(std::span(from)));
}

/// Returns all elements in a tensor. On meta, returns zeros.
template <class T>
std::vector<T> host_copy(Stream& stream, const Tensor& from) {
  require(from.dtype() == dtype_of<T>(), "a tensor of ", name_of(from.dtype()), " was read as ",
          name_of(dtype_of<T>()));
  std::vector<T> out(from.numel());
  copy_to_host(stream, std::as_writable_bytes(std::span(out)), from);
  return out;
}

/// The memory that holds a tensor: a device's or, if `file` is not null, a file's.
struct Location {
  Device device = Device::cpu;
  FileMemory* file = nullptr;

  Location(Device of_tensor, FileMemory* in_file = nullptr) : device(of_tensor), file(in_file) {}
  /// True if the host cannot access the memory.
  bool is_remote() const { return device == Device::cuda || file != nullptr; }
};

/// Copies a tensor to host memory: from the device, after all its earlier commands, or from the file. Sizes must be
/// equal.
void receive(std::span<std::byte> to, Location from, const Tensor& tensor);

/// A tensor's contents in host memory. On cuda and in files this is a copy, on the cpu the tensor's own memory, and on
/// meta null.
class HostView {
 public:
  HostView(Location location, const Tensor& tensor);
  HostView(const HostView&) = delete;
  const Tensor& tensor() const { return view_; }
  std::span<const std::byte> bytes() const { return view_.raw_bytes(); }
  /// Copies from the device, after all earlier commands, or from the file.
  void receive();
  /// Copies to the device or to the file.
  void send() const;

 private:
  Location location_;
  std::vector<std::byte> copy_;
  Tensor original_, view_;
};

}  // namespace mtl
