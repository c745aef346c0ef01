// Memory and its owners. A Buffer is one allocation. An Arena allocates tensors consecutively from its memory.
//
// We plan memory: buffers are allocated before or during the first step, never later. Tensors that live from a
// micro-batch's forward to its backward come from a slot, an Arena that is cleared when the micro-batch is complete.
// Temporary tensors come from scratch memory, another Arena, and are released in reverse order (Arena::Mark). On meta,
// an Arena only adds up sizes, which is how we make memory plans.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "device/file_memory.h"
#include "device/space.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// An allocation, 64-byte aligned (on cuda, 256-byte aligned in device memory) and zeroed. It is in device memory or,
/// with Space::host, in host memory. On cuda, host memory is pinned, so that the device can copy while the host
/// continues. With Space::file, it is in a file in `folder`, and data() must not be accessed. On meta, a Buffer has a
/// size but no memory. The constructor throws Error if there is not enough memory or the build does not support the
/// device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, std::size_t bytes, Space space = Space::device, const std::string& folder = "");
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  /// The file, or null if the memory is in another space.
  FileMemory* file() const { return file_.get(); }
  /// Returns a tensor whose data starts at byte `offset`. Throws Error if the tensor does not fit into the buffer.
  Tensor tensor(DType dtype, Shape shape, std::size_t offset = 0) const;

 private:
  /// Returns the memory to where it came from.
  struct Free {
    Device device;
    Space space;
    std::size_t bytes;
    void operator()(std::byte* data) const;
  };

  std::size_t bytes_ = 0;
  std::unique_ptr<FileMemory> file_;
  std::unique_ptr<std::byte, Free> data_;  // null on meta, or without bytes
};

/// Counts this process's buffers, also those in files, to compare them with memory plans. Ignores buffers on meta.
struct BufferUse {
  std::size_t bytes = 0;  // in existing buffers
  std::size_t made = 0;   // buffers allocated so far
};
BufferUse buffer_use();

/// A stack of tensors, in memory of its own or in part of a Buffer. Tensors start on 64-byte boundaries at least.
class Arena {
 public:
  /// `name` is for error messages. On meta, the capacity is unlimited.
  Arena(Device device, std::string name, std::size_t capacity);
  /// Uses `capacity` bytes in `memory`, starting at `offset`, which must be a multiple of 64. The caller must keep
  /// `memory` alive.
  Arena(Device device, std::string name, const Buffer& memory, std::size_t offset, std::size_t capacity);

  /// Returns a new tensor that starts at a multiple of `align` bytes, a multiple of 64, from the arena's start. Throws
  /// Error if the capacity is exceeded.
  Tensor make(DType dtype, Shape shape, std::size_t align = 64);
  /// Returns a new tensor with the same dtype and shape.
  Tensor like(const Tensor& other) { return make(other.dtype(), other.shape()); }
  void clear() { used_ = 0; }
  /// Returns how many bytes are in use. Pass an earlier value to release_to() to release all tensors made since then.
  std::size_t used() const { return used_; }
  void release_to(std::size_t used) { used_ = std::min(used_, used); }
  std::size_t peak() const { return peak_; }

  /// On destruction, releases all tensors made since the Mark was constructed.
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
  Buffer own_;  // empty if the arena uses part of another Buffer
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace mtl
