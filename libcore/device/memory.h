// Owning memory: a Buffer is one allocation, an Arena hands out tensors from it in order.
//
// Memory is planned: buffers are made before or in the first step, and none later. Tensors that live from a
// micro-batch's forward to its backward come from a slot (an Arena, emptied when the micro-batch is done); temporaries
// come from scratch (another Arena, last in, first out, through Arena::Mark). On meta an Arena only adds up sizes,
// which is how plans are made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "device/space.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// One allocation, 64-byte aligned and zeroed, in the device's memory or, with Space::host, in the host's, pinned on
/// cuda so that the device copies while the host continues. On meta a Buffer has a size and no memory. Throws Error if
/// there is not enough memory, or if the build lacks the device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, std::size_t bytes, Space space = Space::device);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Returns a tensor whose data begins at a byte offset. Throws Error if it does not fit.
  Tensor tensor(DType dtype, Shape shape, std::size_t offset = 0) const;

 private:
  Device device_ = Device::cpu;
  Space space_ = Space::device;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The buffers of this process, except those on meta, to compare with plans.
struct BufferUse {
  std::size_t bytes = 0;  // of existing buffers
  std::size_t made = 0;   // number of buffers so far
};
BufferUse buffer_use();

/// A stack of tensors, in memory of its own or in a part of a Buffer. Every tensor starts on a 64-byte boundary.
class Arena {
 public:
  /// `name` is for error messages. On meta the capacity is unlimited.
  Arena(Device device, std::string name, std::size_t capacity);
  /// Uses a part of `memory`, which must outlive the arena: `capacity` bytes from `offset` on, a multiple of 64.
  Arena(Device device, std::string name, const Buffer& memory, std::size_t offset, std::size_t capacity);

  /// Returns a new tensor. Throws Error if the capacity is exceeded.
  Tensor make(DType dtype, Shape shape);
  /// Returns a new tensor of the same dtype and shape.
  Tensor like(const Tensor& other) { return make(other.dtype(), other.shape()); }
  void clear() { used_ = 0; }
  /// Bytes in use; release_to() an earlier value releases all tensors made since.
  std::size_t used() const { return used_; }
  void release_to(std::size_t used) { used_ = std::min(used_, used); }
  std::size_t peak() const { return peak_; }

  /// Releases, at the end of its scope, all tensors made since its construction.
  class Mark {
   public:
    explicit Mark(Arena& arena) : arena_(arena), used_(arena.used_) {}
    ~Mark() { arena_.used_ = used_; }
    Mark(const Mark&) = delete;

   private:
    Arena& arena_;
    std::size_t used_;
  };

 private:
  Device device_;
  std::string name_;
  Buffer own_;  // empty if the arena is a part of another Buffer
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace mtl
