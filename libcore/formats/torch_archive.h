// Reads what torch.save() writes, as data: the zip format (PyTorch 1.6 and later) and the older stream of pickles and
// storages. The archive may be a file (torch_file.h) or a part of one (dcp_folder.h).
//
//   zip      ROOT/data.pkl, ROOT/data/KEY (a storage), ROOT/byteorder; entries are stored, not compressed
//   stream   five pickles (magic number, protocol 1001, system, object, storage keys); then, for each storage, the
//            number of elements (i64) and the elements
//
// A storage is torch's flat memory, which the elements of one tensor or of several are in.
//
// The saved object is a Pickle (pickle.h). Opening an archive checks every tensor: its storage must have the stated
// size and contain all of its elements. Tensors are strided views of the archive's bytes, which are not read. Rejects
// compressed entries, big-endian archives, globals that torch_globals.h does not allow, and tensors that expand to more
// bytes than the archive has. Throws Error(bad_data), without the name of the file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/find.h"
#include "formats/pickle.h"
#include "formats/torch_tensor.h"
#include "formats/zip_archive.h"

namespace mtl {

/// Reads sizes, offsets or strides: a tuple, list or torch.Size with non-negative integers. `what` is one of them in
/// messages, such as "stride".
std::vector<std::int64_t> read_torch_sizes(PickleValue value, const char* what);
/// Returns the number of elements. Rejects shapes if the product of the nonzero sizes exceeds 63 bits.
std::int64_t checked_count(const std::vector<std::int64_t>& shape);

class TorchArchive {
 public:
  /// The caller must keep `bytes` and `remedy` (pickle.h) alive.
  explicit TorchArchive(std::span<const std::byte> bytes, std::string_view remedy = kTensorsRemedy);

  /// Returns the saved object, which may be of any kind.
  PickleValue root() const { return pickle_->root(); }
  /// Returns the tensor that a value in the pickle represents, or nullptr if the value is not a tensor.
  const TorchTensor* tensor(PickleValue value) const { return find_or_null(tensors_, value.number()); }
  /// Returns the pickle of the saved object.
  std::span<const std::byte> header() const { return header_; }
  /// Checks every zip entry's CRC-32. Does nothing for a stream, which has no checksums.
  void verify() const;

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
  void attach_storages(std::string_view stream);
  const Storage& storage_of(PickleValue persistent) const;
  TorchTensor rebuild(const std::string& function, PickleValue arguments) const;
  TorchTensor rebuild_from_type(PickleValue arguments) const;

  std::span<const std::byte> bytes_;
  std::string_view remedy_;
  std::optional<ZipArchive> zip_;
  std::span<const std::byte> header_;
  std::unique_ptr<Pickle> pickle_;
  std::map<std::string, Storage, std::less<>> storages_;  // by key
  std::map<std::uint32_t, TorchTensor> tensors_;          // by value number
};

}  // namespace mtl
