// Writes a file that torch.load() can read: a pickle with any structure, followed by the elements of its tensors.
//
//   TorchWriter writer(out, "model_optim_rng");
//   writer.pickle().begin_dict();
//   writer.pickle().text("weight"), writer.tensor(StoredDType::f32, {768, 768});
//   writer.pickle().end_dict();
//   writer.write_data(elements);  // once per tensor(), in the same order
//   writer.finish();
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/pickle_writer.h"
#include "formats/stored_dtype.h"
#include "formats/zip_writer.h"

namespace mtl {

class TorchWriter {
 public:
  /// `archive` is the root folder within the zip archive. torch.save() uses the file name without its extension.
  TorchWriter(OutputFile& out, std::string archive) : zip_(out), archive_(std::move(archive)) {}

  /// Returns the pickle, which must be complete before the first call to write_data().
  PickleWriter& pickle() { return pickle_; }
  /// Appends a contiguous tensor to the pickle. `dtype` must be f64, f32, f16 or bf16.
  void tensor(StoredDType dtype, const std::vector<std::int64_t>& shape);
  /// Appends a torch.dtype to the pickle.
  void dtype(StoredDType dtype);
  /// Writes the next tensor's elements in row-major order. Throws if the number of bytes does not match that tensor.
  void write_data(std::span<const std::byte> elements);
  /// Completes the file. Throws unless write_data() was called for every tensor.
  void finish();

 private:
  void end_pickle();

  ZipWriter zip_;
  std::string archive_;
  PickleWriter pickle_;
  std::vector<std::uint64_t> bytes_;  // size of each tensor
  std::size_t written_ = 0;           // number of tensors whose elements have been written
  bool pickle_is_written_ = false;
};

}  // namespace mtl
