// Writes tensors in the format of torch.distributed.checkpoint (DCP):
//
//   FOLDER/__0_0.distcp   one file of torch.save for each box or object, one after another
//   FOLDER/.metadata      a pickle of torch.distributed.checkpoint.metadata.Metadata: every tensor's dtype, shape and
//                         boxes, and where in __0_0.distcp each box and object is
//
//   DcpWriter writer(folder);
//   const std::size_t weight = writer.add_tensor("weight", StoredDType::f32, {2, 768});
//   for (std::int64_t row : {0, 1}) writer.write_box(weight, {row, 0}, {1, 768}, elements_of(row));
//   writer.finish();
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/dcp_metadata.h"
#include "formats/pickle_writer.h"

namespace mtl {

class DcpWriter {
 public:
  /// Creates the file for the data in an existing folder.
  explicit DcpWriter(const std::string& folder);

  /// Adds a tensor, without elements. `dtype` must be f64, f32, f16 or bf16. Returns its number, for write_box().
  std::size_t add_tensor(std::string key, StoredDType dtype, std::vector<std::int64_t> shape);
  /// Writes the elements of a box in a tensor, in row-major order. The caller must write boxes that cover the tensor
  /// once.
  void write_box(std::size_t tensor, const std::vector<std::int64_t>& offset, const std::vector<std::int64_t>& size,
                 std::span<const std::byte> elements);
  /// Adds a key for the same tensor. It refers to the same boxes, so it takes no space. Must follow the last
  /// write_box() for the tensor.
  void add_alias(std::string key, std::size_t tensor);
  /// Adds an object that is a list which contains None. megatron-core stores modules without an extra state like this.
  void add_empty_object(std::string key);
  /// Writes .metadata, and makes both files appear. Must be the last call.
  void finish();

 private:
  struct Entry {
    std::string key;
    bool is_object = false;
    DcpTensor tensor = {};  // of an object: one box, without offset and size
  };

  /// Returns what has been written to the data file from byte `begin` on.
  DcpRange range_from(std::uint64_t begin);
  void write_entry(PickleWriter& pickle, const Entry& entry) const;
  void write_ranges(PickleWriter& pickle, const Entry& entry) const;

  std::string folder_;
  AtomicFile data_;
  std::vector<Entry> entries_;
};

}  // namespace mtl
