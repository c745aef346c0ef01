// Reads files written by torch.save() that contain a dict, or a single tensor, as data (torch_archive.h). Tensors are
// copied only when a caller reads them. Throws Error(bad_data) with the file's name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/tensor_file.h"
#include "formats/torch_archive.h"

namespace mtl {

/// Its tensors() are those under text keys in the root dict, or in the one that select_state_dict() selected; a
/// tensor's key is its name. StoredTensor::begin is always 0.
class TorchFile : public TensorFile {
 public:
  /// Refuses a file that contains something else than a dict or, if `accepts_tensor`, a tensor.
  explicit TorchFile(const std::string& path, bool accepts_tensor = false);
  TorchFile(TorchFile&&) = default;
  TorchFile& operator=(TorchFile&&) = default;

  /// Returns the saved object: a dict, or a tensor.
  PickleValue root() const { return archive_->root(); }
  /// Returns the tensor that a value in this file's pickle represents, or nullptr if the value is not a tensor.
  const TorchTensor* tensor(PickleValue value) const { return archive_->tensor(value); }

  /// If the root dict contains a model's state dict, as in {"epoch": 3, "model": {...}}, makes tensors() return that
  /// dict's tensors. Also looks into inner dicts. A state dict is under a usual key (state_dict, model, module, ...)
  /// or, in a dict without tensors, is the only dict. Throws Error(bad_data) if there are no tensors then.
  void select_state_dict();

  /// The first call for a non-contiguous tensor copies it.
  std::span<const std::byte> data(const StoredTensor& tensor) const override;
  const ZipEntry* record(const StoredTensor& tensor) const override;
  /// Returns the pickle of the saved object.
  std::span<const std::byte> header() const override { return archive_->header(); }
  /// Checks every zip entry's CRC-32. Does nothing for a stream, which has no checksums.
  void verify() const override;

 private:
  void list_tensors(PickleValue dict);
  [[noreturn]] void fail_without_tensors(PickleValue dict, const std::string& selected) const;
  const TorchTensor& view_of(const StoredTensor& stored) const { return *views_[index_.at(stored.name)]; }

  std::unique_ptr<TorchArchive> archive_;
  std::vector<const TorchTensor*> views_;                                    // parallel to tensors()
  mutable std::map<const TorchTensor*, std::vector<std::byte>> contiguous_;  // contiguous copies of tensors
};

}  // namespace mtl
