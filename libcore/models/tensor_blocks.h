// Reads a model's tensors for programs that write them in another format: in blocks that stay in the cache, so that
// verifying, rounding, counting and writing read an element from memory once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/conversion_hook.h"
#include "models/model_source.h"

namespace mtl {

class TensorBlocks {
 public:
  /// A tensor to read and write.
  struct Item {
    const std::string& name;  // in the source
    const std::string& output_name;
    StoredDType dtype;  // in the output
  };
  using Consume = std::function<void(std::span<const std::byte> block)>;

  /// `source` must outlive the object. `on_conversion` may be empty.
  TensorBlocks(const ModelSource& source, ConversionHook on_conversion)
      : source_(source), on_conversion_(std::move(on_conversion)) {}

  /// Reads a slice of a tensor, rounds its elements, calls the hook, and passes them to consume(), block by block.
  void read(const Item& item, const Slice& slice, const Consume& consume);
  /// Reads a slice into `out`, which must have room for exactly slice.count() elements.
  void read(const Item& item, const Slice& slice, std::span<std::byte> out);

 private:
  void read_block(const Item& item, const Slice& part, std::span<std::byte> out);

  const ModelSource& source_;
  ConversionHook on_conversion_;
  std::vector<std::byte> stored_, block_;
};

}  // namespace mtl
