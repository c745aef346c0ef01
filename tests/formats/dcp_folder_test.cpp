// DCP folders: the index .metadata is read exactly, and damaged or hostile ones are refused before any tensor is read.
#include <doctest/doctest.h>

#include "formats/dcp_folder.h"
#include "formats/pickle_writer.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const std::string kPlain = "golden/dist_ckpt/odd/plain_compact";
constexpr const char* kKey = "tok_embeddings.weight";  // (13, 8) in one box
constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

/// Writes an index as a pickle of protocol 2. A test may change what an index cannot express.
struct IndexWriter {
  const DcpMetadata& index;
  bool is_transformed = false, drops_ranges = false;
  PickleWriter pickle = {};

  std::string write() {
    object(kModule, "Metadata");
    pickle.begin_dict();
    pickle.text("state_dict_metadata"), pickle.begin_dict();
    for (const auto& [key, tensor] : index.tensors) pickle.text(key), write_tensor(tensor);
    for (const auto& [key, range] : index.objects) {
      pickle.text(key), object(kModule, "BytesStorageMetadata");
    }
    pickle.end_dict();
    pickle.text("storage_data"), pickle.begin_dict();
    for (const auto& [key, tensor] : index.tensors) {
      for (const DcpBox& box : tensor.boxes) {
        if (!drops_ranges || key != kKey) write_range(key, &box.slice.offset, box.range);
      }
    }
    for (const auto& [key, range] : index.objects) write_range(key, nullptr, range);
    pickle.end_dict();
    pickle.end_dict(), pickle.build();
    return pickle.finish();
  }

  void object(const char* module, const char* name) {
    pickle.global(module, name), pickle.begin_tuple(), pickle.end_tuple(), pickle.new_object();
  }
  void sizes(const std::vector<std::int64_t>& values) {
    pickle.global("torch", "Size"), pickle.begin_tuple(), pickle.begin_tuple();
    for (std::int64_t value : values) pickle.integer(value);
    pickle.end_tuple(), pickle.end_tuple(), pickle.reduce();
  }
  void write_tensor(const DcpTensor& tensor) {
    object(kModule, "TensorStorageMetadata"), pickle.begin_dict();
    pickle.text("properties"), object(kModule, "TensorProperties");
    pickle.begin_tuple(), pickle.global("torch", tensor.dtype == StoredDType::f32 ? "float32" : "float64");
    pickle.end_tuple(), pickle.build();
    pickle.text("size"), sizes(tensor.shape), pickle.text("chunks"), pickle.begin_list();
    for (const DcpBox& box : tensor.boxes) {
      object(kModule, "ChunkStorageMetadata"), pickle.begin_dict();
      pickle.text("offsets"), sizes(box.slice.offset), pickle.text("sizes"), sizes(box.slice.size);
      pickle.end_dict(), pickle.build();
    }
    pickle.end_list(), pickle.end_dict(), pickle.build();
  }
  void write_range(const std::string& key, const std::vector<std::int64_t>* offset, const DcpRange& range) {
    object(kModule, "MetadataIndex"), pickle.begin_dict(), pickle.text("fqn"), pickle.text(key);
    if (offset != nullptr) pickle.text("offset"), sizes(*offset);
    pickle.end_dict(), pickle.build();
    object("torch.distributed.checkpoint.filesystem", "_StorageInfo"), pickle.begin_dict();
    pickle.text("relative_path"), pickle.text(index.files[range.file]);
    pickle.text("offset"), pickle.integer(range.offset), pickle.text("length"), pickle.integer(range.length);
    if (is_transformed)
      pickle.text("transform_descriptors"), pickle.begin_list(), pickle.text("zstd"), pickle.end_list();
    pickle.end_dict(), pickle.build();
  }
};

DcpMetadata plain_index() { return read_dcp_metadata(read_file(kPlain + "/.metadata")); }

/// Returns the error from opening the plain folder with a changed index, and every tensor in it.
template <class Change>
std::string error_with(const Change& change) {
  const ScratchFolder scratch;
  DcpMetadata index = plain_index();
  IndexWriter writer{index};
  change(index, writer);
  fs::copy(kPlain + "/__0_0.distcp", scratch / "__0_0.distcp");
  write_text(scratch / ".metadata", writer.write());
  return error_of(
      [&] {
        const DcpFolder folder(scratch.path());
        for (const auto& [key, tensor] : folder.tensors()) {
          for (const DcpBox& box : tensor.boxes) folder.open_box(key, tensor, box);
        }
      },
      Exit::bad_data);
}

/// Like error_with(), with a changed tensor of one box.
template <class Change>
std::string error_with_tensor(const Change& change) {
  return error_with([&](DcpMetadata& index, IndexWriter&) {
    DcpTensor& tensor = index.tensors.at(kKey);
    change(tensor, tensor.boxes[0]);
  });
}

}  // namespace

TEST_CASE("dcp folder: boxes are found by key and offset, and their archives hold them") {
  const DcpFolder folder(kPlain);
  CHECK(folder.tensors().size() == 12);
  const DcpTensor* tensor = folder.find(kKey);
  REQUIRE(tensor != nullptr);
  CHECK(tensor->shape == std::vector<std::int64_t>{13, 8});
  REQUIRE(tensor->boxes.size() == 1);
  const DcpFolder::OpenBox box = folder.open_box(kKey, *tensor, tensor->boxes[0]);
  CHECK(box.tensor->shape == tensor->shape);
  CHECK(folder.find("absent") == nullptr);
  CHECK(error_with([](DcpMetadata&, IndexWriter&) {}).empty());  // the tests' own writer
}

TEST_CASE("dcp folder: ranges outside the file or the folder are refused") {
  CHECK(contains(error_with_tensor([](DcpTensor&, DcpBox& b) { b.range.offset = 1 << 30; }), "but the file only"));
  CHECK(contains(error_with_tensor([](DcpTensor&, DcpBox& b) { b.range.length = INT64_MAX; }), "but the file only"));
  CHECK(contains(error_with_tensor([](DcpTensor&, DcpBox& b) { b.range.offset = -1; }), "not a number of bytes"));
  CHECK(contains(error_with_tensor([](DcpTensor&, DcpBox& b) { b.range.offset += 64; }), "the archive of"));
  for (const char* name : {"../x", "/dev/zero", "a/b", "..", ""}) {
    CAPTURE(name);
    CHECK(contains(error_with([&](DcpMetadata& index, IndexWriter&) { index.files[0] = name; }), "not a name in the"));
  }
  CHECK(contains(error_with([&](DcpMetadata& index, IndexWriter&) { index.files[0] = "__9_0.distcp"; }), "is missing"));
  CHECK(contains(error_with([](DcpMetadata&, IndexWriter& writer) { writer.drops_ranges = true; }), "has no place"));
  CHECK(contains(error_with([](DcpMetadata&, IndexWriter& writer) { writer.is_transformed = true; }), "transformed"));
}

TEST_CASE("dcp folder: boxes must cover a tensor exactly") {
  CHECK(contains(error_with_tensor([](DcpTensor& t, DcpBox&) { ++t.shape[0]; }), "contain 104 of 112"));
  CHECK(contains(error_with_tensor([](DcpTensor&, DcpBox& b) { --b.slice.size[1]; }), "contain 91 of 104"));
  CHECK(contains(error_with_tensor([](DcpTensor& t, DcpBox&) { --t.shape[0]; }), "is not inside"));
  CHECK(contains(error_with_tensor([](DcpTensor&, DcpBox& b) { ++b.slice.offset[0]; }), "is not inside"));
  CHECK(contains(error_with_tensor([](DcpTensor&, DcpBox& b) { b.slice.offset.pop_back(); }), "is not inside"));
  CHECK(contains(error_with_tensor([](DcpTensor& t, DcpBox&) { t.shape[0] = -13; }), "is -13"));
  const std::vector<std::int64_t> wraps = {std::int64_t{1} << 62, 8};
  CHECK(contains(error_with_tensor([&](DcpTensor& t, DcpBox& b) { t.shape = b.slice.size = wraps; }), "63 bits"));
  const std::vector<std::int64_t> huge = {std::int64_t{1} << 40, 8};
  CHECK(contains(error_with_tensor([&](DcpTensor& t, DcpBox& b) { t.shape = b.slice.size = huge; }), "has only"));
  const auto overlap = [](DcpTensor& t, DcpBox&) {
    DcpBox second = t.boxes[0];
    second.slice.offset[0] = 4, second.slice.size[0] = 9;
    t.boxes.push_back(second);
  };
  CHECK(contains(error_with_tensor(overlap), "(0, 0) and (4, 0) overlap"));
  const auto same = [](DcpTensor& t, DcpBox&) { t.boxes.push_back(DcpBox(t.boxes[0])); };
  CHECK(contains(error_with_tensor(same), "two places"));
}

TEST_CASE("dcp folder: an archive must be the tensor that the index describes") {
  CHECK(contains(error_with_tensor([](DcpTensor& t, DcpBox&) { t.dtype = StoredDType::f64; }), "says F64"));
  const std::vector<std::int64_t> other = {8, 13};
  CHECK(contains(error_with_tensor([&](DcpTensor& t, DcpBox& b) { t.shape = b.slice.size = other; }), "(13, 8), but"));
}

TEST_CASE("dcp: the index of a large model on many ranks is read, in memory that its size bounds") {
  constexpr std::int64_t kTensors = 128, kRanks = 512;  // more values than any file may have regardless of its size
  DcpMetadata index;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) index.files.push_back(cat("__", rank, "_0.distcp"));
  for (std::int64_t i = 0; i < kTensors; ++i) {
    DcpTensor& tensor = index.tensors[cat("layers.", i, ".attention.wq.weight")];
    tensor.shape = {kRanks, 8};
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      DcpBox& box = tensor.boxes.emplace_back();
      box.slice.offset = {rank, 0};
      box.slice.size = {1, 8};
      box.range = {.file = static_cast<std::uint32_t>(rank), .offset = 1000 * i, .length = 1000};
    }
  }
  const std::string stream = IndexWriter{index}.write();
  const DcpMetadata read = read_dcp_metadata(stream);
  REQUIRE(read.tensors.size() == kTensors);
  const DcpTensor& last = read.tensors.at("layers.127.attention.wq.weight");
  REQUIRE(last.boxes.size() == kRanks);
  CHECK(last.boxes.back().slice.offset == std::vector<std::int64_t>{kRanks - 1, 0});
  CHECK(last.boxes.back().range.offset == 127000);
  CHECK(read.files[last.boxes.back().range.file] == "__511_0.distcp");
}

TEST_CASE("dcp folder: an index whose classes, attributes or values are others is refused by name") {
  DcpMetadata index = plain_index();
  index.objects["extra"] = {.file = 0, .offset = 0, .length = 8};
  const std::string stream = IndexWriter{index}.write(), module = cat("c", kModule, "\n");
  const auto text = [](const std::string& value) { return cat("X", char(value.size()), std::string(3, '\0'), value); };
  const auto with = [](const std::string& one) { return one + "\n"; };
  const std::string bytes = module + with("BytesStorageMetadata");
  REQUIRE_NOTHROW(read_dcp_metadata(stream));
  struct Case {
    std::string from, to;  // everywhere
    const char* message;   // "" if the index is still sound
  };
  const Case cases[] = {
      {module + with("Metadata"), module + with("StorageMeta"), "the file contains an instance of torch.distributed."},
      {module + with("Metadata"), "cmegatron.core.dist_checkpointing.strategies.torch\nMCoreMetadata\n", ""},
      {module + with("TensorStorageMetadata"), module + with("StorageMeta"), "neither a tensor nor an object"},
      {module + with("BytesStorageMetadata"), module + with("StorageMeta"), "entry 'extra' is an instance of"},
      {module + with("ChunkStorageMetadata"), module + with("StorageMeta"), ": a chunk is an instance of"},
      {module + with("MetadataIndex"), module + with("StorageMeta"), "a key of storage_data is an instance of"},
      {"_StorageInfo\n", "_StorageInfp\n", "_StorageInfp'"},
      {"ctorch.distributed.checkpoint.filesystem\n_StorageInfo\n", module + with("StorageMeta"), "the place of entry "},
      {text("storage_data"), text("storage_date"), "the attribute storage_data is not a dict"},
      {text("state_dict_metadata"), text("state"), "the attribute state_dict_metadata is not a dict"},
      {text("fqn"), text("fqm"), "without a name"},
      {text("properties"), text("property"), "TensorStorageMetadata has no attribute properties"},
      {text("chunks"), text("chunk"), "has no attribute chunks"},
      {text("offsets"), text("offsex"), "ChunkStorageMetadata has no attribute offsets"},
      {text("sizes"), text("sizex"), "has no attribute sizes"},
      {text("relative_path"), text("path"), "_StorageInfo has no attribute relative_path"},
      {text("length"), text("size"), "has no attribute length"},
      {text("__0_0.distcp"), "K\1", "is in a file '', which is not a name"},
      {"ctorch\nfloat32\n", "ctorch\nSize\n", "has the dtype torch.Size, which mtl does not read"},
      {"ctorch\nfloat32\n", "ctorch\nfloat9\n", "'torch.float9'"},
      {"ctorch\nfloat32\n", "cother\nfloat32\n", "'other.float32'"},
      {"(ctorch\nfloat32\nt", ")", "has the dtype (none), which mtl does not read"},
      {"(ctorch\nfloat32\nt", "}" + text("dtype") + "ctorch\nfloat32\ns", ""},
      {text("extra") + bytes, "K\1" + bytes, "a key is an integer"},
      {text("storage_data"), text("version") + text("1.0.0") + text("storage_data"), ""},
      {text("storage_data"), text("version") + "N" + text("storage_data"), ""},
      {text("storage_data"), text("version") + "K\2" + text("storage_data"), "the index has version an integer"},
      {text("relative_path"), text("transform_descriptors") + "N" + text("relative_path"), ""},
      {text("relative_path"), text("transform_descriptors") + ")" + text("relative_path"), ""},
      {text("relative_path"), text("transform_descriptors") + text("zstd") + text("relative_path"), "was transformed"},
      {text("relative_path"), text("transform_descriptors") + text("") + text("relative_path"), "was transformed"},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.message));
    CAPTURE(one.to);
    std::string changed = stream;
    REQUIRE(contains(changed, one.from));
    for (std::size_t at = 0; (at = changed.find(one.from, at)) != std::string::npos; at += one.to.size())
      changed.replace(at, one.from.size(), one.to);
    const std::string error = error_of([&] { read_dcp_metadata(changed); }, Exit::bad_data);
    CAPTURE(error);
    CHECK((*one.message == '\0' ? error : "") == "");
    CHECK(contains(error, one.message));
  }
  CHECK(read_dcp_metadata(stream).objects.at("extra").length == 8);
  CHECK(read_dcp_metadata(stream).files.size() == plain_index().files.size());
  CHECK(contains(error_of([] { read_dcp_metadata(""); }, Exit::bad_data), "the file is empty"));
}
