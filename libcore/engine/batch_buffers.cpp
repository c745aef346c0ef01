#include "engine/batch_buffers.h"

#include "device/copy.h"

namespace mtl {

BatchBuffers::BatchBuffers(Device device, const RunShape& shape, Space space)
    : part_bytes_(static_cast<std::int64_t>(bytes(shape))), memory_(device, bytes(shape) * shape.micro_batches, space) {
  for (std::int64_t m = 0; m < shape.micro_batches; ++m) {
    std::size_t offset = m * part_bytes_;
    const auto next = [&](DType dtype, const Shape& of) {
      Tensor out = memory_.tensor(dtype, of, offset);
      offset += out.bytes();
      return out;
    };
    batches_.push_back(batch_of(shape, next));
    losses_.push_back(next(DType::f32, {shape.micro_batch, shape.rows_per_sequence()}));
  }
}

std::size_t BatchBuffers::bytes(const RunShape& shape) {
  std::size_t bytes = 0;
  const auto add = [&](DType dtype, const Shape& of) {
    bytes += Tensor(nullptr, dtype, of).bytes();
    return Tensor();
  };
  batch_of(shape, add);
  add(DType::f32, {shape.micro_batch, shape.rows_per_sequence()});  // losses
  return (bytes + 63) / 64 * 64;
}

Tensor BatchBuffers::part(int micro_batch) const {
  return memory_.tensor(DType::u8, {part_bytes_}, micro_batch * part_bytes_);
}

void BatchBuffers::copy(Stream& stream, int micro_batch, const BatchBuffers& from, int from_micro_batch) const {
  copy_on_device(stream, part(micro_batch), from.part(from_micro_batch));
}

void BatchBuffers::copy_from_pinned(Stream& stream, const BatchBuffers& host) const {
  std::int64_t size = memory_.bytes();
  mtl::copy_from_pinned(stream, memory_.tensor(DType::u8, {size}), {host.memory_.data(), host.memory_.bytes()});
}

}  // namespace mtl
