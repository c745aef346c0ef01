#include "formats/dcp_folder.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/hash.h"
#include "base/mapped_faults.h"
#include "base/printable.h"
#include "formats/folder_entries.h"
#include "formats/tensor_file.h"

namespace mtl {

namespace {

std::string index_path(const std::string& folder) {
  std::string path = cat(folder, "/", kDcpMetadataName);
  if (!file_exists(path))
    fail_at(Exit::bad_data, path, "the file is missing, which lists the tensors in the files *.distcp of the folder; ",
            "copy all files of the checkpoint (names that start with a dot are easily missed)");
  return path;
}

}  // namespace

DcpFolder::DcpFolder(const std::string& path)
    : path_(path),
      index_(index_path(path)),
      metadata_(with_where(index_.path(), [&] { return read_dcp_metadata(index_.text()); })),
      files_(metadata_.files.size()) {
  std::vector<std::int64_t> sizes;
  for (const std::string& name : metadata_.files) {
    const std::string file = cat(path, "/", name);
    if (!file_exists(file)) fail_at(Exit::bad_data, file, "the file is missing; copy all files of the checkpoint");
    sizes.push_back(static_cast<std::int64_t>(file_size(file)));
  }
  const auto check = [&](const std::string& key, const DcpRange& range) {
    const std::int64_t size = sizes[range.file];
    if (range.offset > size || range.length > size - range.offset)
      fail_at(Exit::bad_data, file_of(range), "the archive of '", printable_text(key), "' has ",
              count_of(range.length, "byte"), " at offset ", range.offset, ", but the file only ",
              count_of(size, "byte"), "; copy all files of the checkpoint again");
  };
  for (const auto& [key, tensor] : metadata_.tensors) {
    for (const DcpBox& box : tensor.boxes) check(key, box.range);
  }
  for (const auto& [key, range] : metadata_.objects) check(key, range);
}

std::string DcpFolder::file_of(const DcpRange& range) const { return cat(path_, "/", metadata_.files[range.file]); }

const MappedFile& DcpFolder::map(std::uint32_t file) const {
  if (!files_[file]) files_[file].emplace(cat(path_, "/", metadata_.files[file]));
  return *files_[file];
}

std::unique_ptr<TorchArchive> DcpFolder::open_object(const std::string& key, const DcpRange& range) const {
  const std::span<const std::byte> bytes = map(range.file).bytes();
  if (static_cast<std::size_t>(range.offset + range.length) > bytes.size())
    fail_at(Exit::io, file_of(range), "the file has been truncated");
  const auto open = [&] {
    return std::make_unique<TorchArchive>(bytes.subspan(range.offset, range.length), kCheckpointRemedy);
  };
  return with_where(file_of(range), open, "the archive of '", printable_text(key), "' at offset ", range.offset, ": ");
}

DcpFolder::OpenBox DcpFolder::open_box(const std::string& key, const DcpTensor& tensor, const DcpBox& box) const {
  OpenBox out;
  out.archive = open_object(key, box.range);
  out.tensor = out.archive->tensor(out.archive->root());
  const bool is_match =
      out.tensor != nullptr && out.tensor->dtype == tensor.dtype && out.tensor->shape == box.slice.size;
  if (is_match) return out;
  const std::string found = out.tensor == nullptr ? out.archive->root().describe()
                                                  : cat(name_of(out.tensor->dtype), " ", shape_text(out.tensor->shape));
  fail_at(Exit::bad_data, file_of(box.range), "the archive of '", printable_text(key), "' at offset ", box.range.offset,
          " contains ", found, ", but ", kDcpMetadataName, " says ", name_of(tensor.dtype), " ",
          shape_text(box.slice.size), kDamagedRemedy);
}

void DcpFolder::release(const DcpRange& range) const { map(range.file).release(range.offset, range.length); }

void DcpFolder::check_size(const DcpRange& range) const {
  check_mapped_size(file_of(range), map(range.file).bytes().size());
}

std::string DcpFolder::identity() const {
  const std::string_view index = index_.text();
  std::string lines = cat(kDcpMetadataName, ": ", hash_text(hash_bytes(index.data(), index.size())));
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::span<const std::byte> bytes = map(static_cast<std::uint32_t>(i)).bytes();
    Hasher hasher;
    hash_sample(hasher, bytes, 64);
    lines += cat("\n", metadata_.files[i], ": ", bytes.size(), " bytes, ", hash_text(hasher.digest()));
  }
  return lines;
}

}  // namespace mtl
