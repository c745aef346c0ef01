#include "formats/dcp_metadata.h"

#include <algorithm>
#include <utility>

#include "base/count_of.h"
#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/str.h"
#include "formats/pickle.h"
#include "formats/slice_overlap.h"
#include "formats/tensor_file.h"
#include "formats/torch_archive.h"
#include "formats/torch_globals.h"

namespace mtl {

namespace {

constexpr std::string_view kDcpVersion = "1.0.0";
constexpr std::size_t kMaxMetadataBytes = std::size_t{1} << 32;

/// The classes in .metadata files of PyTorch and megatron-core, as data.
constexpr AllowedGlobal kMetadataClasses[] = {
    {"torch.distributed.checkpoint.metadata", "Metadata", GlobalUse::type},
    {"torch.distributed.checkpoint.metadata", "TensorStorageMetadata", GlobalUse::type},
    {"torch.distributed.checkpoint.metadata", "BytesStorageMetadata", GlobalUse::type},
    {"torch.distributed.checkpoint.metadata", "ChunkStorageMetadata", GlobalUse::type},
    {"torch.distributed.checkpoint.metadata", "TensorProperties", GlobalUse::type},
    {"torch.distributed.checkpoint.metadata", "MetadataIndex", GlobalUse::type},
    {"torch.distributed.checkpoint.metadata", "StorageMeta", GlobalUse::type},
    {"torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING", GlobalUse::type},
    {"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties", GlobalUse::type},
    {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", GlobalUse::type},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo", GlobalUse::type},
    {"torch.distributed.checkpoint.planner", "SavePlan", GlobalUse::type},
    {"torch.distributed.checkpoint.planner", "WriteItem", GlobalUse::type},
    {"torch.distributed.checkpoint.planner", "WriteItemType", GlobalUse::type},
    {"torch.distributed.checkpoint.planner", "TensorWriteData", GlobalUse::type},
    {"megatron.core.dist_checkpointing.strategies.torch", "MCoreSavePlan", GlobalUse::type},
    {"megatron.core.dist_checkpointing.strategies.torch", "MCoreMetadata", GlobalUse::type},
    {"torch", "Size", GlobalUse::type},
    {"torch.serialization", "_get_layout", GlobalUse::function},
    {"pathlib", "PosixPath", GlobalUse::type},
    {"pathlib._local", "PosixPath", GlobalUse::type},
    {"collections", "OrderedDict", GlobalUse::dictionary},
    {"collections", "defaultdict", GlobalUse::dictionary}};

GlobalUse metadata_global_use(std::string_view module, std::string_view name) {
  if (const auto use = find_global(kMetadataClasses, module, name)) return *use;
  return module == "torch" && dtype_of_torch_global(cat("torch.", name)) ? GlobalUse::value : GlobalUse::refused;
}

std::string name_in_message(std::string_view key) { return cat("'", printable_text(key.substr(0, 200)), "'"); }

/// True if the value is an instance of a class with this name, in any of its modules.
bool is_instance(PickleValue value, std::string_view name) {
  return value.is(PickleKind::object) && ends_with(value.global(), cat(".", name));
}

PickleValue attribute(PickleValue object, const char* name, const std::string& key) {
  const std::optional<PickleValue> found = object.find(name);
  if (!found) refuse_damaged("entry ", name_in_message(key), ": ", object.describe(), " has no attribute ", name);
  return *found;
}

std::int64_t byte_count(PickleValue info, const char* name, const std::string& key) {
  const PickleValue value = attribute(info, name, key);
  if (!value.is(PickleKind::integer) || value.as_int() < 0)
    refuse_damaged("entry ", name_in_message(key), ": the ", name, " in its file is not a number of bytes");
  return value.as_int();
}

/// A box's key in storage_data: its tensor's key and its offsets, which are empty for other entries.
using IndexKey = std::pair<std::string, std::vector<std::int64_t>>;

class MetadataReader {
 public:
  explicit MetadataReader(PickleValue root) : root_(root) {}

  DcpMetadata read() {
    // megatron-core's class adds where the parts of flattened tensors are, which the boxes also state.
    if (!is_instance(root_, "Metadata") && !is_instance(root_, "MCoreMetadata"))
      refuse_damaged("the file contains ", root_.describe(), " instead of torch.distributed.checkpoint's Metadata");
    check_version();
    read_ranges(dict_at("storage_data"));
    const PickleValue entries = dict_at("state_dict_metadata");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!entries.key(i).is(PickleKind::text)) refuse_damaged("a key is ", entries.key(i).describe());
      read_entry(std::string(entries.key(i).as_text()), entries.value(i));
    }
    return std::move(out_);
  }

 private:
  PickleValue dict_at(const char* name) const {
    const std::optional<PickleValue> found = root_.find(name);
    if (!found || !found->is(PickleKind::dict)) refuse_damaged("the attribute ", name, " is not a dict");
    return *found;
  }

  /// Older releases of PyTorch state no version.
  void check_version() const {
    const std::optional<PickleValue> version = root_.find_not_none("version");
    if (!version) return;
    const std::string found = version->is(PickleKind::text) ? std::string(version->as_text()) : version->describe();
    if (found != kDcpVersion)
      fail(Exit::bad_data, "the index has version ", printable_text(found.substr(0, 100)), ", but mtl reads only ",
           kDcpVersion, "; save the checkpoint with an older PyTorch");
  }

  void read_ranges(PickleValue storage) {
    for (std::size_t i = 0; i < storage.size(); ++i) {
      const PickleValue index = storage.key(i), info = storage.value(i);
      const std::optional<PickleValue> fqn = index.find("fqn"), offset = index.find_not_none("offset");
      if (!is_instance(index, "MetadataIndex") || !fqn || !fqn->is(PickleKind::text))
        refuse_damaged("a key of storage_data is ", index.describe(), " without a name");
      IndexKey key{std::string(fqn->as_text()), {}};
      if (offset) key.second = read_torch_sizes(*offset, "offset");
      if (!is_instance(info, "_StorageInfo"))
        refuse_damaged("the place of entry ", name_in_message(key.first), " is ", info.describe());
      const DcpRange range = read_range(info, key.first);
      if (!ranges_.emplace(std::move(key), range).second)
        refuse_damaged("entry ", name_in_message(fqn->as_text()), " has two places for the same offsets");
    }
  }

  DcpRange read_range(PickleValue info, const std::string& key) {
    const std::optional<PickleValue> transforms = info.find_not_none("transform_descriptors");
    if (transforms && (transforms->is(PickleKind::text) || transforms->size() > 0))
      fail(Exit::bad_data, "entry ", name_in_message(key),
           " was transformed when it was saved (transform_descriptors), such as compressed, which mtl does not read; "
           "save the checkpoint without extensions of the storage writer");
    const PickleValue path = attribute(info, "relative_path", key);
    const std::string name = path.is(PickleKind::text) ? std::string(path.as_text()) : "";
    if (!is_plain_name(name))
      refuse_damaged("entry ", name_in_message(key), " is in a file ", name_in_message(name),
                     ", which is not a name in the folder");
    const auto [file, is_new] = file_index_.emplace(name, static_cast<std::uint32_t>(out_.files.size()));
    if (is_new) out_.files.push_back(name);
    return {.file = file->second, .offset = byte_count(info, "offset", key), .length = byte_count(info, "length", key)};
  }

  DcpRange range_of(const IndexKey& key) const {
    const auto found = ranges_.find(key);
    if (found == ranges_.end())
      refuse_damaged("entry ", name_in_message(key.first), " has no place in a file",
                     key.second.empty() ? "" : cat(" for the chunk at ", shape_text(key.second)));
    return found->second;
  }

  void read_entry(const std::string& key, PickleValue entry) {
    const bool is_bytes = is_instance(entry, "BytesStorageMetadata");
    if (!is_bytes && !is_instance(entry, "TensorStorageMetadata"))
      refuse_damaged("entry ", name_in_message(key), " is ", entry.describe(), ", neither a tensor nor an object");
    const bool is_new = is_bytes ? out_.objects.emplace(key, range_of({key, {}})).second
                                 : out_.tensors.emplace(key, read_tensor(key, entry)).second;
    if (!is_new) refuse_damaged("two entries are named ", name_in_message(key));
  }

  DcpTensor read_tensor(const std::string& key, PickleValue entry) const {
    DcpTensor tensor;
    tensor.dtype = read_dtype(key, attribute(entry, "properties", key));
    tensor.shape = read_torch_sizes(attribute(entry, "size", key), "size");
    const std::int64_t count = checked_count(tensor.shape);
    const PickleValue boxes = attribute(entry, "chunks", key);
    if (!boxes.is(PickleKind::list) && !boxes.is(PickleKind::tuple))
      refuse_damaged("entry ", name_in_message(key), ": the chunks are ", boxes.describe());
    std::int64_t covered = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      tensor.boxes.push_back(read_box(key, tensor, boxes.at(i)));
      if (__builtin_add_overflow(covered, tensor.boxes.back().slice.count(), &covered)) covered = -1;
    }
    check_cover(key, tensor, count, covered);
    return tensor;
  }

  static StoredDType read_dtype(const std::string& key, PickleValue properties) {
    const PickleValue state = properties.is(PickleKind::object) ? properties.state() : properties;
    std::optional<PickleValue> value = state.find("dtype");
    if (state.is(PickleKind::tuple) && state.size() > 0) value = state.at(0);
    const std::optional<StoredDType> dtype = value ? dtype_of_torch_global(value->global()) : std::nullopt;
    if (!dtype)
      fail(Exit::bad_data, "entry ", name_in_message(key), " has the dtype ", value ? value->describe() : "(none)",
           ", which mtl does not read; save it as float32");
    return *dtype;
  }

  DcpBox read_box(const std::string& key, const DcpTensor& tensor, PickleValue value) const {
    if (!is_instance(value, "ChunkStorageMetadata"))
      refuse_damaged("entry ", name_in_message(key), ": a chunk is ", value.describe());
    DcpBox box;
    box.slice.offset = read_torch_sizes(attribute(value, "offsets", key), "offset");
    box.slice.size = read_torch_sizes(attribute(value, "sizes", key), "size");
    if (!is_inside(box.slice, tensor.shape))
      refuse_damaged("entry ", name_in_message(key), ": the chunk at ", shape_text(box.slice.offset), " of shape ",
                     shape_text(box.slice.size), " is not inside the tensor of shape ", shape_text(tensor.shape));
    box.slice.end = checked_count(box.slice.size);
    box.range = range_of({key, box.slice.offset});
    if (box.slice.count() > box.range.length / (bits_of(tensor.dtype) / 8))
      refuse_damaged("entry ", name_in_message(key), ": a chunk of ", box.slice.count(), " elements has only ",
                     count_of(box.range.length, "byte"));
    return box;
  }

  static void check_cover(const std::string& key, const DcpTensor& tensor, std::int64_t count, std::int64_t covered) {
    std::vector<const Slice*> slices;
    for (const DcpBox& box : tensor.boxes) slices.push_back(&box.slice);
    if (const auto found = find_overlap(slices))
      refuse_damaged("entry ", name_in_message(key), ": the chunks at ", shape_text(slices[found->first]->offset),
                     " and ", shape_text(slices[found->second]->offset), " overlap");
    if (covered != count)
      refuse_damaged("entry ", name_in_message(key), ": the chunks contain ", covered, " of ",
                     count_of(count, "element"));
  }

  PickleValue root_;
  DcpMetadata out_;
  std::map<std::string, std::uint32_t> file_index_;
  std::map<IndexKey, DcpRange> ranges_;
};

}  // namespace

DcpMetadata read_dcp_metadata(std::string_view stream) {
  if (stream.size() > kMaxMetadataBytes)
    fail(Exit::bad_data, "the file has ", stream.size(), " bytes, but mtl reads at most ", kMaxMetadataBytes,
         "; save the checkpoint with fewer ranks");
  if (stream.empty()) fail(Exit::bad_data, "the file is empty; copy it again");
  const Pickle pickle(stream, metadata_global_use, kCheckpointRemedy);
  return MetadataReader(pickle.root()).read();
}

}  // namespace mtl
