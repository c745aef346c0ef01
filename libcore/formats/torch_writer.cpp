#include "formats/torch_writer.h"

#include "base/error.h"
#include "base/str.h"
#include "formats/tensor_map.h"
#include "formats/torch_globals.h"

namespace mtl {

void TorchWriter::tensor(StoredDType dtype, const std::vector<std::int64_t>& shape) {
  require(is_model_dtype(dtype), "cannot write a torch file of ", name_of(dtype));
  const std::int64_t elements = whole_slice(shape).count();
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  const auto storage = [&] {
    pickle_.tuple(
        "storage", [&] { pickle_.global("torch", storage_class_of(dtype)); }, std::to_string(bytes_.size()), "cpu",
        elements);
    pickle_.persistent_id();
  };
  const auto hooks = [&] { pickle_.call("collections", "OrderedDict"); };
  // _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)
  pickle_.call("torch._utils", "_rebuild_tensor_v2", storage, 0, shape, strides, false, hooks);
  bytes_.push_back(static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(bits_of(dtype)) / 8);
}

void TorchWriter::dtype(StoredDType dtype) { pickle_.global("torch", torch_name_of(dtype)); }

void TorchWriter::end_pickle() {
  if (pickle_is_written_) return;
  pickle_is_written_ = true;
  zip_.add(archive_ + "/data.pkl", pickle_.finish());
  zip_.add(archive_ + "/byteorder", "little");
}

void TorchWriter::write_data(std::span<const std::byte> elements) {
  end_pickle();
  require(written_ < bytes_.size() && elements.size() == bytes_[written_], "torch file: ", elements.size(),
          " bytes for tensor ", written_, " of ", bytes_.size());
  zip_.add(cat(archive_, "/data/", written_++), elements);
}

void TorchWriter::finish() {
  end_pickle();
  require(written_ == bytes_.size(), "torch file: ", written_, " of ", bytes_.size(), " tensors were written");
  zip_.add(archive_ + "/version", "3\n");
  zip_.finish();
}

}  // namespace mtl
