#include "formats/dcp_writer.h"

#include "base/error.h"
#include "base/str.h"
#include "formats/torch_writer.h"

namespace mtl {

namespace {

constexpr const char* kDataFile = "__0_0.distcp";
constexpr const char* kArchive = "archive";  // torch.save's name for a file without a name
constexpr const char* kMetadataModule = "torch.distributed.checkpoint.metadata";

/// Appends an instance of a class, without attributes.
void begin_instance(PickleWriter& pickle, const char* module, const char* name) {
  pickle.global(module, name);
  pickle.begin_tuple();
  pickle.end_tuple();
  pickle.new_object();
}

void write_size(PickleWriter& pickle, const std::vector<std::int64_t>& sizes) {
  pickle.global("torch", "Size");
  pickle.begin_tuple();
  pickle.begin_tuple();
  for (const std::int64_t size : sizes) pickle.integer(size);
  pickle.end_tuple();
  pickle.end_tuple();
  pickle.reduce();
}

/// Appends the TensorProperties of a dense tensor. Their state is (dtype, layout, requires_grad, memory format,
/// pin_memory); memory format 0 is contiguous.
void write_properties(PickleWriter& pickle, StoredDType dtype) {
  begin_instance(pickle, kMetadataModule, "TensorProperties");
  pickle.begin_tuple();
  pickle.global("torch", torch_name_of(dtype));
  pickle.global("torch.serialization", "_get_layout");
  pickle.begin_tuple();
  pickle.text("torch.strided");
  pickle.end_tuple();
  pickle.reduce();
  pickle.boolean(false);
  pickle.global(kMetadataModule, "_MEM_FORMAT_ENCODING");
  pickle.begin_tuple();
  pickle.integer(0);
  pickle.end_tuple();
  pickle.reduce();
  pickle.boolean(false);
  pickle.end_tuple();
  pickle.build();
}

}  // namespace

DcpWriter::DcpWriter(const std::string& folder) : folder_(folder), data_(cat(folder, "/", kDataFile)) {}

std::size_t DcpWriter::add_tensor(std::string key, StoredDType dtype, std::vector<std::int64_t> shape) {
  entries_.push_back({.key = std::move(key), .dtype = dtype, .shape = std::move(shape)});
  return entries_.size() - 1;
}

void DcpWriter::write_box(std::size_t tensor, const std::vector<std::int64_t>& offset,
                          const std::vector<std::int64_t>& size, std::span<const std::byte> elements) {
  Entry& entry = entries_.at(tensor);
  const std::uint64_t begin = data_.out().bytes();
  TorchWriter writer(data_.out(), kArchive);
  writer.tensor(entry.dtype, size);
  writer.write_data(elements);
  writer.finish();
  entry.boxes.push_back({offset, size, {begin, data_.out().bytes() - begin}});
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
  entries_.push_back(
      {.key = std::move(key), .is_object = true, .boxes = {{{}, {}, {begin, data_.out().bytes() - begin}}}});
}

void DcpWriter::write_entry(PickleWriter& pickle, const Entry& entry) const {
  pickle.text(entry.key);
  if (entry.is_object) return begin_instance(pickle, kMetadataModule, "BytesStorageMetadata");
  begin_instance(pickle, kMetadataModule, "TensorStorageMetadata");
  pickle.begin_dict();
  pickle.text("properties");
  write_properties(pickle, entry.dtype);
  pickle.text("size");
  write_size(pickle, entry.shape);
  pickle.text("chunks");
  pickle.begin_list();
  for (const Box& box : entry.boxes) {
    begin_instance(pickle, kMetadataModule, "ChunkStorageMetadata");
    pickle.begin_dict();
    pickle.text("offsets");
    write_size(pickle, box.offset);
    pickle.text("sizes");
    write_size(pickle, box.size);
    pickle.end_dict();
    pickle.build();
  }
  pickle.end_list();
  pickle.end_dict();
  pickle.build();
}

void DcpWriter::write_ranges(PickleWriter& pickle, const Entry& entry) const {
  for (const Box& box : entry.boxes) {
    begin_instance(pickle, kMetadataModule, "MetadataIndex");
    pickle.begin_dict();
    pickle.text("fqn"), pickle.text(entry.key);
    pickle.text("offset");
    if (entry.is_object) {
      pickle.none();
    } else {
      write_size(pickle, box.offset);
    }
    pickle.text("index"), pickle.none();
    pickle.end_dict();
    pickle.build();
    begin_instance(pickle, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
    pickle.begin_dict();
    pickle.text("relative_path"), pickle.text(kDataFile);
    pickle.text("offset"), pickle.integer(static_cast<std::int64_t>(box.range.offset));
    pickle.text("length"), pickle.integer(static_cast<std::int64_t>(box.range.length));
    pickle.end_dict();
    pickle.build();
  }
}

void DcpWriter::finish() {
  data_.commit();
  PickleWriter pickle;
  begin_instance(pickle, kMetadataModule, "Metadata");
  pickle.begin_dict();
  pickle.text("state_dict_metadata");
  pickle.begin_dict();
  for (const Entry& entry : entries_) write_entry(pickle, entry);
  pickle.end_dict();
  pickle.text("planner_data"), pickle.none();
  pickle.text("storage_data");
  pickle.begin_dict();
  for (const Entry& entry : entries_) write_ranges(pickle, entry);
  pickle.end_dict();
  pickle.text("storage_meta"), pickle.none();
  pickle.end_dict();
  pickle.build();
  AtomicFile file(folder_ + "/.metadata");
  file.write(pickle.finish());
  file.commit();
}

}  // namespace mtl
