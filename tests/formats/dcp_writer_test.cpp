// Checkpoints of torch.distributed.checkpoint: .metadata describes every box, and says where its archive is.
#include "formats/dcp_writer.h"

#include <doctest/doctest.h>

#include "formats/dcp_metadata.h"
#include "formats/pickle.h"
#include "formats/torch_archive.h"
#include "formats/zip_archive.h"
#include "pickle_text.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

GlobalUse any_type(std::string_view, std::string_view name) {
  return name == "float32" ? GlobalUse::value : GlobalUse::type;
}

std::vector<std::int64_t> sizes_in(PickleValue size) {
  CHECK(size.global() == "torch.Size");
  const PickleValue sizes = size.arguments().at(0);
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < sizes.size(); ++i) out.push_back(sizes.at(i).as_int());
  return out;
}

struct Stored {
  std::string fqn;
  std::vector<std::int64_t> offset;  // empty for an object
  std::string archive;               // its bytes
};

std::vector<Stored> stored_in(PickleValue storage, const std::string& data) {
  std::vector<Stored> out;
  for (std::size_t i = 0; i < storage.size(); ++i) {
    const PickleValue index = storage.key(i), info = storage.value(i);
    CHECK(index.global() == "torch.distributed.checkpoint.metadata.MetadataIndex");
    CHECK(info.global() == "torch.distributed.checkpoint.filesystem._StorageInfo");
    CHECK(info.find("relative_path")->as_text() == "__0_0.distcp");
    Stored& one = out.emplace_back();
    one.fqn = std::string(index.find("fqn")->as_text());
    if (const PickleValue offset = *index.find("offset"); !offset.is(PickleKind::none)) one.offset = sizes_in(offset);
    one.archive = data.substr(info.find("offset")->as_int(), info.find("length")->as_int());
  }
  return out;
}

/// Returns the data of an archive's only tensor.
std::string elements_in(const std::string& archive) {
  const ZipArchive zip(std::as_bytes(std::span(archive)));
  const ZipEntry* entry = zip.find("archive/data/0");
  REQUIRE(entry != nullptr);
  check_crc(*entry);
  return {reinterpret_cast<const char*>(entry->data.data()), entry->data.size()};
}

std::string text_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

TEST_CASE("dcp writer: .metadata lists tensors, boxes and objects, and each archive is where it says") {
  const ScratchFolder scratch;
  const std::vector<float> first = {1, 2, 3}, second = {4, 5, 6};
  DcpWriter writer(scratch.path());
  const std::size_t weight = writer.add_tensor("weight", StoredDType::f32, {2, 3});
  writer.write_box(weight, {0, 0}, {1, 3}, std::as_bytes(std::span(first)));
  writer.add_empty_object("extra/shard_0_1");
  writer.write_box(weight, {1, 0}, {1, 3}, std::as_bytes(std::span(second)));
  writer.add_alias("main", weight);
  CHECK(!file_exists(scratch / "__0_0.distcp"));
  writer.finish();

  const std::string stream = read_file(scratch / ".metadata"), data = read_file(scratch / "__0_0.distcp");
  const Pickle pickle(stream, any_type);
  CHECK(pickle.root().global() == "torch.distributed.checkpoint.metadata.Metadata");
  const PickleValue tensors = *pickle.root().find("state_dict_metadata");
  REQUIRE(tensors.size() == 3);
  CHECK(tensors.find("extra/shard_0_1")->global() == "torch.distributed.checkpoint.metadata.BytesStorageMetadata");
  for (const char* name : {"weight", "main"}) {
    const PickleValue tensor = *tensors.find(name);
    CHECK(sizes_in(*tensor.find("size")) == std::vector<std::int64_t>{2, 3});
    CHECK(tensor.find("properties")->state().at(0).global() == "torch.float32");
    const PickleValue boxes = *tensor.find("chunks");
    REQUIRE(boxes.size() == 2);
    CHECK(sizes_in(*boxes.at(1).find("offsets")) == std::vector<std::int64_t>{1, 0});
    CHECK(sizes_in(*boxes.at(1).find("sizes")) == std::vector<std::int64_t>{1, 3});
  }
  const std::vector<Stored> stored = stored_in(*pickle.root().find("storage_data"), data);
  REQUIRE(stored.size() == 5);
  std::size_t bytes = 0;
  for (const Stored& one : stored) {
    CAPTURE(one.fqn);
    if (one.fqn != "main") bytes += one.archive.size();
    if (one.offset.empty()) {
      CHECK(one.fqn == "extra/shard_0_1");
      CHECK(ZipArchive(std::as_bytes(std::span(one.archive))).find("archive/data.pkl") != nullptr);
    } else {
      CHECK(elements_in(one.archive) == text_of(one.offset[0] == 0 ? first : second));
    }
  }
  CHECK(bytes == data.size());
}

TEST_CASE("dcp writer: all of .metadata") {
  const ScratchFolder scratch;
  DcpWriter writer(scratch.path());
  const std::size_t number = writer.add_tensor("a", StoredDType::bf16, {2, 1});
  for (const std::int64_t row : {0, 1}) writer.write_box(number, {row, 0}, {1, 1}, std::vector<std::byte>(2));
  writer.add_alias("b", number);
  writer.add_empty_object("c");
  writer.finish();
  const auto rule = [](std::string_view module, std::string_view name) {
    if (starts_with(name, "_get")) return GlobalUse::function;
    return module == "torch" && name != "Size" ? GlobalUse::value : GlobalUse::type;
  };
  const std::string stream = read_file(scratch / ".metadata");
  std::string text = pickle_value_text(Pickle(stream, rule).root());
  for (const auto& [from, to] : {std::pair("torch.distributed.checkpoint.", ""), {"metadata.", ""}, {"torch.", ""}}) {
    for (std::size_t at = 0; (at = text.find(from)) != std::string::npos;)
      text.erase(at, std::string_view(from).size()).insert(at, to);
  }
  const std::string tensor =
      "TensorStorageMetadata(){'properties': TensorProperties()(bfloat16, serialization._get_layout('strided')None, "
      "False, _MEM_FORMAT_ENCODING(0)None, False), 'size': Size((2, 1))None, 'chunks': [ChunkStorageMetadata()"
      "{'offsets': Size((0, 0))None, 'sizes': Size((1, 1))None}, ChunkStorageMetadata(){'offsets': Size((1, 0))None, "
      "'sizes': Size((1, 1))None}]}";
  const auto range = [](const char* key, const char* offset, int at, int length) {
    return cat("MetadataIndex(){'fqn': '", key, "', 'offset': ", offset,
               ", 'index': None}: filesystem._StorageInfo()"
               "{'relative_path': '__0_0.distcp', 'offset': ",
               at, ", 'length': ", length, "}");
  };
  const char *first = "Size((0, 0))None", *second = "Size((1, 0))None";
  CHECK(text == cat("Metadata(){'state_dict_metadata': {'a': ", tensor, ", 'b': ", tensor,
                    ", 'c': BytesStorageMetadata()None}, 'planner_data': None, 'storage_data': {",
                    range("a", first, 0, 718), ", ", range("a", second, 718, 718), ", ", range("b", first, 0, 718),
                    ", ", range("b", second, 718, 718), ", ", range("c", "None", 1436, 402),
                    "}, 'storage_meta': None}"));
  const auto object = read_dcp_metadata(stream).objects.at("c");
  const std::string bytes = read_file(scratch / "__0_0.distcp").substr(object.offset, object.length);
  CHECK(pickle_value_text(TorchArchive(std::as_bytes(std::span(bytes))).root()) == "[None]");
}
