// torch.save files: every golden case is read or rejected, and damage leads to an error or to readable values.
#include "ckpt/torch_file.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "base/json.h"
#include "ckpt/pickle_writer.h"
#include "ckpt/zip_writer.h"
#include "ckpt_fixtures.h"
#include "tests/golden_lines.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const std::string kFolder = "golden/megatron_ckpt/";

double element_at(StoredDType dtype, const std::byte* at) {
  const auto load = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return double(value);
  };
  switch (dtype) {
    case StoredDType::boolean:
    case StoredDType::u8:
      return load(std::uint8_t{});
    case StoredDType::i8:
      return load(std::int8_t{});
    case StoredDType::i16:
      return load(std::int16_t{});
    case StoredDType::i32:
      return load(std::int32_t{});
    case StoredDType::i64:
      return load(std::int64_t{});
    case StoredDType::f64:
      return load(double{});
    default: {
      float value = 0;
      to_float(dtype, {at, static_cast<std::size_t>(bits_of(dtype) / 8)}, {&value, 1});
      return double(value);
    }
  }
}

std::string torch_dtype_name(StoredDType dtype) {
  constexpr std::pair<StoredDType, const char*> kNames[] = {
      {StoredDType::boolean, "bool"}, {StoredDType::u8, "uint8"},  {StoredDType::i8, "int8"},
      {StoredDType::i16, "int16"},    {StoredDType::i32, "int32"}, {StoredDType::i64, "int64"}};
  for (const auto& [known, name] : kNames) {
    if (known == dtype) return name;
  }
  return torch_name_of(dtype);
}

/// Reads every tensor and returns a sum, so that the compiler keeps the reads.
std::uint64_t read_all(const TorchFile& file) {
  std::uint64_t sum = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    for (std::byte byte : file.data(tensor)) sum += std::to_integer<std::uint64_t>(byte);
  }
  for (std::size_t i = 0; i < file.root().size(); ++i) sum += file.root().value(i).describe().size();
  return sum;
}

}  // namespace

TEST_CASE("torch files: the golden hostile files are refused with a reason, the unusual ones are read") {
  int refused = 0, accepted = 0;
  for (const Json& entry : golden_lines(kFolder + "bad.jsonl")) {
    const std::string path = kFolder + entry.at("file").as_string();
    CAPTURE(path);
    const auto began = std::chrono::steady_clock::now();
    if (entry.at("expect").as_string() == "refuse") {
      ++refused;
      const std::string error = error_of([&] { TorchFile file(path); }, Exit::bad_data);
      CAPTURE(error);
      CHECK(starts_with(error, path + ": "));
      CHECK(error.size() > path.size() + 15);
    } else {
      ++accepted;
      const TorchFile file(path);
      const PickleValue model = *file.root().find("model");
      for (const auto& [name, expected] : entry.at("tensors").as_object()) {
        CAPTURE(name);
        REQUIRE(model.find(name));
        const TorchTensor* tensor = file.tensor(*model.find(name));
        REQUIRE(tensor != nullptr);
        CHECK(torch_dtype_name(tensor->dtype) == expected.at("dtype").as_string());
        std::vector<std::int64_t> shape;
        for (const Json& size : expected.at("shape").as_array()) shape.push_back(size.as_int());
        CHECK(tensor->shape == shape);
        const Json::Array& values = expected.at("values").as_array();
        REQUIRE(tensor->count() == std::ssize(values));
        const std::size_t element = bits_of(tensor->dtype) / 8;
        std::vector<std::byte> elements(values.size() * element);
        read_elements(*tensor, 0, elements);
        for (std::size_t i = 0; i < values.size(); ++i) {
          CHECK(element_at(tensor->dtype, &elements[i * element]) == values[i].as_number());
          std::vector<std::byte> single(element);  // a single element, at any position
          read_elements(*tensor, static_cast<std::int64_t>(i), single);
          CHECK(std::equal(single.begin(), single.end(), &elements[i * element]));
        }
      }
    }
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(1));
  }
  CHECK(refused >= 40);
  CHECK(accepted >= 6);
}

TEST_CASE("torch files: values that are not tensors are read") {
  for (const char* name : {"bad/odd_ok_zip.pt", "bad/odd_ok_stream.pt"}) {
    CAPTURE(name);
    const TorchFile file(kFolder + name);
    CHECK(file.root().find("iteration")->as_int() == 7);
    const PickleValue args = *file.root().find("args");
    CHECK(args.global() == "argparse.Namespace");
    CHECK(args.find("lr")->as_number() == doctest::Approx(1e-4));
    CHECK(args.find("none")->is(PickleKind::none));
    CHECK(args.find("big")->is(PickleKind::big_integer));
    CHECK(args.find("dtype")->global() == "torch.bfloat16");
    CHECK(args.find("nested")->find("s")->as_text() == "h\xC3\xA9");
    CHECK(!args.find("absent"));
  }
}

TEST_CASE("torch files: damage is an error or readable values") {
  std::mt19937 random(20261122);
  const ScratchFolder folder;
  int read = 0, refused = 0;
  for (const char* name : {"bad/odd_ok_zip.pt", "bad/odd_ok_stream.pt", "bad/protocol_5.pt", "bad/plain_zip.pt"}) {
    const std::string whole = read_file(kFolder + name);
    for (int i = 0; i < 400; ++i) {
      std::string damaged = whole;
      for (int change = static_cast<int>(random() % 4); change >= 0; --change) {
        const std::size_t at = random() % damaged.size();
        const std::size_t bytes = std::min<std::size_t>(random() % 9, damaged.size() - at);
        switch (random() % 4) {
          case 0:
            damaged[at] = static_cast<char>(random());
            break;
          case 1:
            damaged.erase(at, std::min(bytes, damaged.size() - 1));
            break;
          case 2:
            damaged.insert(at, damaged.substr(random() % damaged.size(), bytes));
            break;
          default:
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
        }
      }
      const std::string path = folder.path() + "/damaged.pt";
      write_text(path, damaged);
      try {
        read_all(TorchFile(path));
        ++read;
      } catch (const Error& error) {
        CHECK(error.code() == Exit::bad_data);
        ++refused;
      }
    }
  }
  CHECK(read > 10);
  CHECK(refused > 100);
}

TEST_CASE("torch file: _rebuild_tensor takes exactly four arguments, and a tensor may have attributes") {
  const ScratchFolder scratch;
  const auto write = [&](const char* function, int more, const char* module = "torch._utils", bool is_typed = false) {
    PickleWriter pickle;
    pickle.begin_dict();
    pickle.text("weight");
    if (is_typed) pickle.global("torch._tensor", "_rebuild_from_type_v2"), pickle.begin_tuple();
    pickle.global(module, function);
    if (is_typed) pickle.global("torch", "Tensor");
    pickle.begin_tuple();
    pickle.begin_tuple();
    pickle.text("storage"), pickle.global("torch", "FloatStorage"), pickle.text("0"), pickle.text("cpu");
    pickle.integer(2);
    pickle.end_tuple();
    pickle.persistent_id();
    pickle.integer(0);
    for (const int size : {2, 1}) pickle.begin_tuple(), pickle.integer(size), pickle.end_tuple();  // shape, strides
    for (int i = 0; i < more; ++i) pickle.boolean(false);
    pickle.end_tuple();
    if (is_typed) {
      pickle.begin_dict(), pickle.text("tensor_model_parallel"), pickle.boolean(true), pickle.end_dict();
      pickle.end_tuple();
    }
    pickle.reduce();
    pickle.end_dict();
    OutputFile out(scratch / "one.pt");
    ZipWriter zip(out);
    zip.add("one/data.pkl", pickle.finish());
    zip.add("one/data/0", std::string_view("\0\0\200\77\0\0\0\100", 8));
    zip.add("one/version", "3\n");
    zip.finish();
    out.close();
    return error_of([&] { CHECK(TorchFile(scratch / "one.pt").tensors().size() == 1); }, Exit::bad_data);
  };
  CHECK(write("_rebuild_tensor", 0).empty());
  CHECK(contains(write("_rebuild_tensor", 1), "5 arguments"));
  CHECK(write("_rebuild_tensor_v2", 2).empty());
  CHECK(write("_rebuild_tensor_v2", 3).empty());  // with metadata
  CHECK(contains(write("_rebuild_tensor_v2", 4), "8 arguments"));
  CHECK(write("_rebuild_tensor_v2", 2, "torch._utils", true).empty());
  CHECK(contains(write("_rebuild_tensor_v2", 4, "torch._utils", true), "8 arguments"));
  CHECK(contains(write("Size", 2, "torch", true), "has no tensor"));
}
