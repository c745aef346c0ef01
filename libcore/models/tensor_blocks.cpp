#include "models/tensor_blocks.h"

#include "formats/slice_steps.h"

namespace mtl {

/// Fills `out` with a part of a slice.
void TensorBlocks::read_block(const Item& item, const Slice& part, std::span<std::byte> out) {
  const StoredDType from = source_.find_tensor(item.name)->dtype;
  std::span<std::byte> stored = out;
  if (from != item.dtype) {
    stored_.resize(part.count() * bits_of(from) / 8);
    stored = stored_;
  }
  source_.read(item.name, part, stored);
  if (from != item.dtype) convert_elements(from, stored, item.dtype, out);
  if (on_conversion_) on_conversion_(item.output_name, from, stored, item.dtype, out);
}

void TensorBlocks::read(const Item& item, const Slice& slice, const Consume& consume) {
  const std::size_t element = bits_of(item.dtype) / 8;
  for_each_step(slice, element, kStepBytes, [&](const Slice& part, std::int64_t) {
    block_.resize(part.count() * element);
    read_block(item, part, block_);
    consume(block_);
  });
}

void TensorBlocks::read(const Item& item, const Slice& slice, std::span<std::byte> out) {
  const std::size_t element = bits_of(item.dtype) / 8;
  require(out.size() == slice.count() * element, "TensorBlocks::read: a buffer of ", out.size(), " bytes for ",
          slice.count(), " elements");
  for_each_step(slice, element, kStepBytes, [&](const Slice& part, std::int64_t first) {
    read_block(item, part, out.subspan(first * element, part.count() * element));
  });
}

}  // namespace mtl
