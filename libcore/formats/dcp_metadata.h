// The index of a folder that torch.distributed.checkpoint saved ("DCP"): the file .metadata, a plain pickle of its
// class Metadata, read as data.
//
//   state_dict_metadata   key -> TensorStorageMetadata(properties, size, chunks [(offsets, sizes)])
//                                or BytesStorageMetadata(), an object of any kind
//   storage_data          MetadataIndex(fqn, offset, index) -> _StorageInfo(relative_path, offset, length)
//
// torch calls a box of a tensor a chunk, as do this format's keys and our messages; the code says box. A box's
// _StorageInfo is the one with its tensor's key as fqn and its offsets as offset; `index` is only a hint. Bytes offset
// to offset + length of the file relative_path, which is a name in the same folder, are an archive written by
// torch.save(), of one tensor with the box's shape, or of an object.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/stored_dtype.h"
#include "layout/slice.h"

namespace mtl {

/// The bytes of an archive.
struct DcpRange {
  std::uint32_t file = 0;  // index into DcpMetadata::files
  std::int64_t offset = 0, length = 0;
};

struct DcpBox {
  Slice slice;  // of the tensor; the element range covers the entire box
  DcpRange range;
};

struct DcpTensor {
  StoredDType dtype = StoredDType::f32;
  std::vector<std::int64_t> shape;
  std::vector<DcpBox> boxes;  // contain every element exactly once
};

struct DcpMetadata {
  std::vector<std::string> files;            // names in the folder
  std::map<std::string, DcpTensor> tensors;  // by key
  std::map<std::string, DcpRange> objects;   // the other entries, by key
};

/// Reads a .metadata file. Throws Error(bad_data), without the file's name, if it is damaged, if it names a class other
/// than torch.distributed.checkpoint's own, if boxes of a tensor leave a hole or overlap, or if entries are
/// compressed.
DcpMetadata read_dcp_metadata(std::string_view pickle);

}  // namespace mtl
