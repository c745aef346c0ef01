// Base class for readers whose tensors consist of boxes of a DCP folder (dcp_folder.h). Opens a box's archive when
// it reads elements of it, and closes it when it reads elements of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/dcp_folder.h"
#include "formats/stored_matrix.h"
#include "models/tensor_reader.h"

namespace mtl {

/// A box with the key and the tensor to which it belongs, or a tensor in an object's archive, which the reader keeps
/// open.
struct DcpSource {
  const std::string* key;
  const DcpTensor* tensor = nullptr;
  const DcpBox* box = nullptr;
  const TorchArchive* archive = nullptr;  // of an object
  const TorchTensor* view = nullptr;      // in `archive`, contiguous
  DcpRange object = {};

  const DcpRange& range() const { return box != nullptr ? box->range : object; }
};

class DcpReader : public TensorReader {
 public:
  /// Gathers the slice into `out`. Throws Error(io) if a file has been truncated. Verifies the CRC-32 of a record when
  /// its last byte has been read, and leaves the rest to verify_slice() and verify().
  void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const final;
  /// Opens the archives from which the slice is read, and verifies the CRC-32 of their records.
  void verify_slice(std::size_t index, const Slice& slice) const final;
  /// Verifies the archives of all tensors that the reader uses.
  void verify() const override;
  std::vector<NonfiniteTensor> find_nonfinite(std::size_t index) const final;
  std::string stored_name(std::size_t index) const final;
  std::string identity() const override { return dcp_.identity(); }

 protected:
  /// The pieces of a canonical tensor, and what contains them. piece.file is an index into `sources`; a piece's strides
  /// are those of a dense box.
  struct TensorMap {
    std::vector<TensorPiece> pieces;
    std::vector<DcpSource> sources;
  };

  using State = std::pair<SavedTensor, TensorMap>;  // one tensor and its map

  explicit DcpReader(const std::string& path) : dcp_(path) { folder = path; }
  void add_tensor(State state);
  /// Adds the elements in a box of a tensor that is stored as `matrix` or, with `layer`, of a stack of such tensors.
  static void add_box(const StoredMatrix& matrix, const DcpSource& source, std::optional<std::int64_t> layer,
                      TensorMap& map);
  /// Gathers a slice of a tensor of this dtype into `out`.
  void gather(const TensorMap& from, StoredDType dtype, const Slice& slice, std::span<std::byte> out) const;
  const DcpFolder& dcp() const { return dcp_; }

 private:
  /// A box whose archive is open, because the last part of a tensor was read from it.
  struct Reading {
    DcpFolder::OpenBox box;
    std::vector<std::byte> copy = {};          // of elements that are not contiguous in the archive
    std::span<const std::byte> elements = {};  // dense
  };
  /// What was verified of an archive while it was open.
  struct Verified {
    CrcProgress elements = {};
    bool is_complete = false;  // all entries
  };

  const Reading& open(const DcpSource& source) const;
  void close(const DcpBox& box) const;
  void check_record(const DcpSource& source, std::size_t end) const;
  void verify_box(const DcpSource& source) const;
  template <class Check>
  void with_location(const DcpSource& source, const Check& check) const;

  DcpFolder dcp_;
  std::vector<TensorMap> maps_;  // parallel to `tensors`
  mutable std::map<const DcpBox*, Reading> open_;
  mutable std::map<std::pair<std::uint32_t, std::int64_t>, Verified> verified_;  // by (file, offset) of the archive
  mutable std::size_t unreleased_ = 0;  // bytes read since pages were last released
};

}  // namespace mtl
