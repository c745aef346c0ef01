#include "formats/dcp_writer.h"

#include "base/error.h"
#include "base/str.h"
#include "formats/torch_writer.h"

namespace mtl {

namespace {

constexpr const char* kDataFile = "__0_0.distcp";
constexpr const char* kArchive = "archive";  // torch.save's name for a file without a name
constexpr const char* kMetadataModule = "torch.distributed.checkpoint.metadata";

void write_size(PickleWriter& pickle, const std::vector<std::int64_t>& sizes) { pickle.call("torch", "Size", sizes); }

/// Appends the TensorProperties of a dense tensor. Their state is (dtype, layout, requires_grad, memory format,
/// pin_memory); memory format 0 is contiguous.
void write_properties(PickleWriter& pickle, StoredDType dtype) {
  pickle.object(kMetadataModule, "TensorProperties");
  pickle.tuple([&] { pickle.global("torch", torch_name_of(dtype)); },
               [&] { pickle.call("torch.serialization", "_get_layout", "torch.strided"); }, false,
               [&] { pickle.call(kMetadataModule, "_MEM_FORMAT_ENCODING", 0); }, false);
  pickle.build();
}

}  // namespace

DcpWriter::DcpWriter(const std::string& folder) : folder_(folder), data_(cat(folder, "/", kDataFile)) {}

std::size_t DcpWriter::add_tensor(std::string key, StoredDType dtype, std::vector<std::int64_t> shape) {
  entries_.push_back({.key = std::move(key), .tensor = {.dtype = dtype, .shape = std::move(shape), .boxes = {}}});
  return entries_.size() - 1;
}

void DcpWriter::write_box(std::size_t tensor, const std::vector<std::int64_t>& offset,
                          const std::vector<std::int64_t>& size, std::span<const std::byte> elements) {
  DcpTensor& to = entries_.at(tensor).tensor;
  const std::uint64_t begin = data_.out().bytes();
  TorchWriter writer(data_.out(), kArchive);
  writer.tensor(to.dtype, size);
  writer.write_data(elements);
  writer.finish();
  to.boxes.push_back({{.offset = offset, .size = size}, range_from(begin)});
}

void DcpWriter::add_alias(std::string key, std::size_t tensor) {
  Entry entry = entries_.at(tensor);
  entry.key = std::move(key);
  entries_.push_back(std::move(entry));
}

void DcpWriter::add_empty_object(std::string key) {
  const std::uint64_t begin = data_.out().bytes();
  TorchWriter writer(data_.out(), kArchive);
  writer.pickle().begin_list();
  writer.pickle().none();
  writer.pickle().end_list();
  writer.finish();
  Entry entry{.key = std::move(key), .is_object = true};
  entry.tensor.boxes.push_back({{}, range_from(begin)});
  entries_.push_back(std::move(entry));
}

DcpRange DcpWriter::range_from(std::uint64_t begin) {
  const std::uint64_t end = data_.out().bytes();
  return {.offset = static_cast<std::int64_t>(begin), .length = static_cast<std::int64_t>(end - begin)};
}

void DcpWriter::write_entry(PickleWriter& pickle, const Entry& entry) const {
  pickle.text(entry.key);
  if (entry.is_object) return pickle.object(kMetadataModule, "BytesStorageMetadata");
  const auto chunks = [&] {
    pickle.begin_list();
    for (const auto& [box, range] : entry.tensor.boxes)
      pickle.object(
          kMetadataModule, "ChunkStorageMetadata", "offsets", [&] { write_size(pickle, box.offset); }, "sizes",
          [&] { write_size(pickle, box.size); });
    pickle.end_list();
  };
  pickle.object(
      kMetadataModule, "TensorStorageMetadata", "properties", [&] { write_properties(pickle, entry.tensor.dtype); },
      "size", [&] { write_size(pickle, entry.tensor.shape); }, "chunks", chunks);
}

void DcpWriter::write_ranges(PickleWriter& pickle, const Entry& entry) const {
  for (const auto& [box, range] : entry.tensor.boxes) {
    const auto offset = [&] {
      if (entry.is_object) return pickle.none();
      write_size(pickle, box.offset);
    };
    pickle.object(kMetadataModule, "MetadataIndex", "fqn", entry.key, "offset", offset, "index", nullptr);
    pickle.object("torch.distributed.checkpoint.filesystem", "_StorageInfo", "relative_path", kDataFile, "offset",
                  range.offset, "length", range.length);
  }
}

void DcpWriter::finish() {
  data_.commit();
  PickleWriter pickle;
  const auto metadata = [&] {
    pickle.begin_dict();
    for (const Entry& entry : entries_) write_entry(pickle, entry);
    pickle.end_dict();
  };
  const auto ranges = [&] {
    pickle.begin_dict();
    for (const Entry& entry : entries_) write_ranges(pickle, entry);
    pickle.end_dict();
  };
  pickle.object(kMetadataModule, "Metadata", "state_dict_metadata", metadata, "planner_data", nullptr, "storage_data",
                ranges, "storage_meta", nullptr);
  write_file_atomic(folder_ + "/.metadata", pickle.finish());
}

}  // namespace mtl
