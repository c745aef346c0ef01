// Reads files written by torch.save(), as data: the zip format (PyTorch 1.6 and later) and the older stream of pickles
// and storages.
//
//   zip      ROOT/data.pkl, ROOT/data/KEY (a storage), ROOT/byteorder; entries are stored, not compressed
//   stream   five pickles (magic number, protocol 1001, system, object, storage keys); then, for each storage, the
//            number of elements (i64) and the elements
//
// The saved object is a Pickle (pickle.h) whose root is a dict. Opening a file checks every tensor: its storage must
// have the stated size and contain all of its elements. Tensors are strided views of the mapped file; elements are
// copied only when a caller reads them. Rejects compressed entries, big-endian files, globals that torch_globals.h does
// not allow, and tensors that expand to more bytes than the file has. Throws Error(bad_data) with the file's name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "ckpt/pickle.h"
#include "ckpt/tensor_file.h"
#include "ckpt/torch_tensor.h"
#include "ckpt/zip_archive.h"

namespace mtl {

class TorchFile : public TensorFile {
 public:
  explicit TorchFile(const std::string& path);
  TorchFile(TorchFile&&) = default;
  TorchFile& operator=(TorchFile&&) = default;

  /// Returns the saved object, a dict.
  PickleValue root() const { return pickle_->root(); }
  /// Returns the tensor that a value in this file's pickle represents, or nullptr if the value is not a tensor.
  const TorchTensor* tensor(PickleValue value) const;

  const std::string& path() const override { return file_.path(); }
  /// If the root dict contains a model's state dict, as in {"epoch": 3, "model": {...}}, makes tensors() return that
  /// dict's tensors. Also looks into inner dicts. A state dict is under a usual key (state_dict, model, module, ...)
  /// or, in a dict without tensors, is the only dict. Throws Error(bad_data) if there are no tensors then.
  void select_state_dict();

  /// Returns the tensors under text keys in the root dict, or in the one that select_state_dict() selected; a tensor's
  /// key is its name. StoredTensor::begin is always 0.
  const std::vector<StoredTensor>& tensors() const override { return stored_; }
  const StoredTensor* find(const std::string& name) const override;
  /// The first call for a non-contiguous tensor copies it.
  std::span<const std::byte> data(const StoredTensor& tensor) const override;
  const ZipEntry* record(const StoredTensor& tensor) const override;
  /// Returns the pickle of the saved object.
  std::span<const std::byte> header() const override { return header_; }
  std::span<const std::byte> bytes() const override { return file_.bytes(); }
  /// Checks every zip entry's CRC-32. Does nothing for a stream, which has no checksums.
  void verify() const override;

 private:
  struct Storage {
    StoredDType dtype = StoredDType::f32;
    std::uint64_t elements = 0;
    bool is_untyped = false;  // elements are bytes
    std::span<const std::byte> data;
    const ZipEntry* record = nullptr;
  };

  void open_zip();
  void open_stream();
  void read_object(std::string_view stream);
  void collect_storages();
  void collect_tensors();
  void list_tensors(PickleValue dict);
  [[noreturn]] void fail_without_tensors(PickleValue dict, const std::string& selected) const;
  void attach_storages(std::string_view stream);
  const Storage& storage_of(PickleValue persistent) const;
  TorchTensor rebuild(PickleValue object) const;

  MappedFile file_;
  std::optional<ZipArchive> zip_;
  std::span<const std::byte> header_;
  std::unique_ptr<Pickle> pickle_;
  std::map<std::string, Storage, std::less<>> storages_;  // by key
  std::map<std::uint32_t, TorchTensor> tensors_;          // by value number
  std::vector<StoredTensor> stored_;
  std::map<std::string, std::size_t> index_;                            // into stored_
  std::vector<std::uint32_t> numbers_;                                  // value numbers, parallel to stored_
  mutable std::map<std::uint32_t, std::vector<std::byte>> contiguous_;  // contiguous copies of tensors, by value number
};

}  // namespace mtl
