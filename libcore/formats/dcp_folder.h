// A folder that torch.distributed.checkpoint saved: boxes of tensors, and objects, each an archive of torch.save() in
// one of the folder's files.
//
//   FOLDER/.metadata        the index (dcp_metadata.h)
//   FOLDER/__R_K.distcp     archives one after another, in any order, possibly with gaps; R is the rank that wrote them
//
// Opening the folder reads the index and the files' sizes. A file is mapped, and an archive opened, only when somebody
// reads it; archives that nobody needs are never opened.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/find.h"
#include "formats/dcp_metadata.h"
#include "formats/torch_archive.h"

namespace mtl {

inline constexpr std::string_view kDcpMetadataName = ".metadata";

class DcpFolder {
 public:
  /// Throws Error(bad_data) if .metadata is missing or damaged, or if an archive is not inside its file.
  explicit DcpFolder(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, DcpTensor>& tensors() const { return metadata_.tensors; }
  const std::map<std::string, DcpRange>& objects() const { return metadata_.objects; }
  /// Returns nullptr if there is no tensor with this key.
  const DcpTensor* find(const std::string& key) const { return find_or_null(metadata_.tensors, key); }
  /// Returns the path of the file that contains an archive.
  std::string file_of(const DcpRange& range) const;

  struct OpenBox {
    std::unique_ptr<TorchArchive> archive;
    const TorchTensor* tensor = nullptr;  // in `archive`
  };
  /// Opens a box's archive. Throws Error(bad_data) unless it contains one tensor with the box's dtype and shape.
  OpenBox open_box(const std::string& key, const DcpTensor& tensor, const DcpBox& box) const;
  /// Opens an object's archive.
  std::unique_ptr<TorchArchive> open_object(const std::string& key, const DcpRange& range) const;

  /// Removes an archive from this process's memory. Archives are large, and a file may be larger than the memory.
  void release(const DcpRange& range) const;
  /// Throws Error(io) if a file that was read has been truncated since.
  void check_size(const DcpRange& range) const;
  /// Returns a line per file, with its size and a hash of samples, and one for .metadata.
  std::string identity() const;

 private:
  const MappedFile& map(std::uint32_t file) const;

  std::string path_;
  MappedFile index_;
  DcpMetadata metadata_;
  mutable std::vector<std::optional<MappedFile>> files_;  // parallel to metadata_.files; empty: not mapped yet
};

}  // namespace mtl
