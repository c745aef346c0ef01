// torch.save files: every golden case is read or rejected, and damage leads to an error or to readable values.
#include "formats/torch_file.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>

#include "base/json.h"
#include "formats/pickle_writer.h"
#include "formats/torch_writer.h"
#include "formats/zip_writer.h"
#include "pickle_text.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/golden_lines.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;
using namespace std::string_literals;

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

TEST_CASE("torch file: one value changed in a file is refused for the right reason, or read") {
  const ScratchFolder scratch;
  const auto text = [](const std::string& value) { return cat("X", char(value.size()), std::string(3, '\0'), value); };
  const std::string id = "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\2tQ",
                    v2 = "ctorch._utils\n_rebuild_tensor_v2\n", size = "K\2\x85K\1\x85", flags = "\x89\x89",
                    untyped = "ctorch.storage\nUntypedStorage\n", tensor = v2 + "(" + id + "K\0"s + size + flags + "tR",
                    most = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", minus = "J\xff\xff\xff\xff";
  using Edits = std::vector<std::pair<std::string, std::string>>;
  struct Case {
    const char* message;  // "" if the file is read
    Edits edits;          // of the pickle
    std::vector<std::pair<std::string, std::string>> entries = {{"one/data.pkl", ""}, {"one/data/0", "01234567"}};
  };
  const auto tensors_of = [&](const Case& one) {
    std::string pickle = "}" + text("w") + tensor + "s.";
    for (const auto& [from, to] : one.edits) {
      const std::size_t at = pickle.find(from);
      REQUIRE(at != std::string::npos);
      pickle.replace(at, from.size(), to);
    }
    OutputFile out(scratch / "one.pt");
    ZipWriter zip(out);
    for (const auto& [name, data] : one.entries) zip.add(name, ends_with(name, "data.pkl") ? pickle : data);
    zip.finish();
    out.close();
    return TorchFile(scratch / "one.pt").tensors().size();
  };
  const Case cases[] = {
      {"", {}},
      {"", {{"K\2tQ", "K\2NtQ"}}},
      {"the file has views of storages", {{"K\2tQ", "K\2K\1tQ"}}},
      {"a persistent id is a tuple, which does not describe a storage", {{"K\2tQ", "tQ"}}},
      {"a persistent id is a tuple, which does not describe a storage", {{"K\2tQ", "K\2NNtQ"}}},
      {"a persistent id is a tuple, which does not describe a storage", {{text("storage"), text("module")}}},
      {"a persistent id is a tuple, which does not describe a storage", {{text("storage"), "N"}}},
      {"a persistent id is a tuple, which does not describe a storage", {{text("0"), "N"}}},
      {"a persistent id is None, which does not describe a storage", {{id, "NQ"}}},
      {"a storage has the type torch.Size, which", {{"FloatStorage", "Size"}}},
      {"a storage has -1 elements", {{"K\2tQ", minus + "tQ"}}},
      {"the number of elements of a storage is None instead of an integer", {{"K\2tQ", "NtQ"}}},
      {"storage '0' has 8 bytes for 3 elements of 4 bytes", {{"K\2tQ", "K\3tQ"}}},
      {"storage '0' has 8 bytes for 2 elements of 2 bytes", {{"FloatStorage", "HalfStorage"}}},
      {"storage '0' has 9 bytes for 2 elements of 4 bytes", {}, {{"one/data.pkl", ""}, {"one/data/0", "012345678"}}},
      {"storage 'a/b' has no entry", {{text("0"), text("a/b")}}, {{"one/data.pkl", ""}, {"one/data/a/b", "01234567"}}},
      {"storage '0' has no entry", {}, {{"one/data.pkl", ""}, {"one/0", "01234567"}}},
      {"storage '0' has two types or sizes",
       {{"s.", "s" + text("x") + v2 + "((" + text("storage") + "ctorch\nIntStorage\n" + text("0") + text("cpu") +
                   "K\2tQK\0"s + size + flags + "tRs."}}},
      {"storage '0' has two types or sizes",
       {{"s.", "s" + text("x") + v2 + "((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") +
                   "K\1tQK\0"s + size + flags + "tRs."}}},
      {"a tensor is at offset -1 of its storage", {{"K\0"s + size, minus + size}}},
      {"a tensor ends at element 3 of a storage of 2", {{"K\0"s + size, "K\1" + size}}},
      {"", {{"K\0"s + size, "K\1K\1\x85K\1\x85"}}},
      {"", {{size, "]K\2aK\1\x85"}}},
      {"", {{size, "ctorch\nSize\n(K\2\x85tRK\1\x85"}}},
      {" is ", {{size, "ctorch\nSize\n)RK\1\x85"}}},
      {"a tensor has 2 sizes but 1 stride", {{size, "(K\1K\2tK\1\x85"}}},
      {"", {{"K\0"s + size, "K\x63K\0\x85K\1\x85"s}}},  // no elements
      {"a stride of a tensor is -1", {{size, "K\2\x85" + minus + "\x85"}}},
      {"the index of a tensor's last element exceeds 63 bits", {{size, "K\3\x85" + most + "\x85"}}},
      {"the index of a tensor's last element exceeds 63 bits", {{"K\0"s + size, "K\1K\2\x85" + most + "\x85"}}},
      {"the end of a tensor exceeds 63 bits", {{"K\0"s + size, most + "K\1\x85K\1\x85"}}},
      {"more than the file has; call contiguous()", {{size, "M\xff\xff\x85K\0\x85"s}}},
      {"is applied to an untyped storage", {{"ctorch\nFloatStorage\n", untyped}, {"K\2tQ", "K\x08tQ"}}},
      {"is applied to a typed storage", {{"tensor_v2", "tensor_v3"}, {flags, flags + "ctorch\nfloat32\n"}}},
      {"",
       {{"ctorch\nFloatStorage\n", untyped},
        {"K\2tQ", "K\x08tQ"},
        {"tensor_v2", "tensor_v3"},
        {flags, flags + "ctorch\nfloat32\n"}}},
      {"a tensor has the type torch.Size, which mtl does not read",
       {{"ctorch\nFloatStorage\n", untyped},
        {"K\2tQ", "K\x08tQ"},
        {"tensor_v2", "tensor_v3"},
        {flags, flags + "ctorch\nSize\n"}}},
      {"_rebuild_tensor_v3 has 6 arguments", {{"tensor_v2", "tensor_v3"}}},
      {"", {{tensor, "ctorch._utils\n_rebuild_parameter\n(" + tensor + "\x88)tR"}}},
      {"a parameter has no tensor", {{tensor, "ctorch._utils\n_rebuild_parameter\n(N\x88)tR"}}},
      {"a parameter has no tensor", {{tensor, "ctorch._utils\n_rebuild_parameter\n)R"}}},
      {"a tensor with attributes has no tensor",
       {{tensor, "ctorch._tensor\n_rebuild_from_type_v2\n(" + v2 + "ctorch\nTensor\n)tR"}}},
      {"a tensor with attributes has no tensor",
       {{tensor, "ctorch._tensor\n_rebuild_from_type_v2\n(" + v2 + "ctorch\nTensor\nN}tR"}}},
      {"a tensor with attributes has no tensor",
       {{tensor, "ctorch._tensor\n_rebuild_from_type_v2\n(Nctorch\nTensor\n)}tR"}}},
      {"is not in the folder of the first entry", {}, {{"one/data.pkl", ""}, {"two/data/0", "01234567"}}},
      {"is not in the folder of the first entry", {}, {{"data.pkl", ""}, {"data/0", "01234567"}}},
      {"'one/data.pkl' is missing", {}, {{"one/data/0", "01234567"}}},
      {"the byte order is 'big", {}, {{"one/data.pkl", ""}, {"one/byteorder", "big"}, {"one/data/0", "01234567"}}},
      {"", {}, {{"one/data.pkl", ""}, {"one/byteorder", "little"}, {"one/data/0", "01234567"}}},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.message));
    const std::string error = error_of([&] { CHECK(tensors_of(one) == 1); }, Exit::bad_data);
    CAPTURE(error);
    CHECK((*one.message == '\0' ? error.empty() : contains(error, one.message)));
  }
  tensors_of({});
  std::string bytes = read_file(scratch / "one.pt");
  bytes.at(bytes.find(flags)) = '\x88';
  write_text(scratch / "one.pt", bytes);
  CHECK(contains(error_of([&] { TorchFile(scratch / "one.pt"); }, Exit::bad_data), "CRC-32"));
}

TEST_CASE("torch file: one value changed in a file of the format before zip archives") {
  const ScratchFolder scratch;
  const auto text = [](const std::string& value) { return cat("X", char(value.size()), std::string(3, '\0'), value); };
  const std::string protocol = "\x80\2M\xe9\3.", endian = text("little_endian") + "\x88s.",
                    keys = "]" + text("0") + "a.", count("\2\0\0\0\0\0\0\0", 8), data = "01234567",
                    magic = "\x80\2\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                    object = "\x80\2}" + text("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
                             "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\2tQK\0K\2\x85K\1\x85\x89\x89tRs."s;
  struct Case {
    const char* message;  // "" if the file is read
    std::string from, to;
  };
  const Case cases[] = {
      {"", data, data},
      {"", data, data + "more"},
      {"other", "\x9c\x46", "\x9c\x47"},
      {"other", magic, "\x80\2N."},
      {"1002", protocol, "\x80\2M\xea\3."},
      {"the protocol is None instead of an integer", protocol, "\x80\2N."},
      {"the file does not state its byte order", "little", "middle"},
      {"the file does not state its byte order", endian, text("little_endian") + "Ns."},
      {"the byte order is 'big", endian, text("little_endian") + "\x89s."},
      {"the storage keys are a dict instead of a list", keys, "}."},
      {"a storage key is an integer", keys, "]K\1a."},
      {"storage '1' belongs to no tensor", keys, "]" + text("1") + "a."},
      {"storage '0' is stored twice", keys + count + data,
       "](" + text("0") + text("0") + "e." + count + data + count + data},
      {"storage '0' is missing", keys, "]."},
      {"storage '0' has 3 elements, but its tensors expect 2", count, "\3" + count.substr(1)},
      {"storage '0' has 2 elements of 4 bytes, but only 7 bytes follow", data, data.substr(1)},
      {"the file ends before storage '0'", count + data, count.substr(1)},
      {"storage '0' has 2 elements of 4 bytes, but only 0 bytes follow", data, ""},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.message));
    std::string file = magic + protocol + "\x80\2}" + endian + object + "\x80\2" + keys + count + data;
    const std::size_t at = file.rfind(one.from);
    REQUIRE(at != std::string::npos);
    write_text(scratch / "one.pt", file.replace(at, one.from.size(), one.to));
    const std::string error =
        error_of([&] { CHECK(TorchFile(scratch / "one.pt").tensors().size() == 1); }, Exit::bad_data);
    CAPTURE(error);
    CHECK((*one.message == '\0' ? error.empty() : contains(error, one.message)));
  }
  write_text(scratch / "one.pt", "");
  CHECK(contains(error_of([&] { TorchFile(scratch / "one.pt"); }, Exit::bad_data), "the file is empty"));
}

TEST_CASE("torch writer: all entries of a file, and all of its pickle") {
  const ScratchFolder scratch;
  OutputFile out(scratch / "x.pt");
  TorchWriter writer(out, "x");
  writer.pickle().begin_dict(), writer.pickle().text("w");
  writer.tensor(StoredDType::bf16, {2, 3});
  writer.pickle().text("d"), writer.dtype(StoredDType::f16);
  for (const std::int64_t number :
       {std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}, std::int64_t{INT32_MAX} + 1, std::int64_t{INT32_MIN} - 1})
    writer.pickle().text("n"), writer.pickle().integer(number);
  writer.pickle().end_dict();
  writer.write_data(std::vector<std::byte>(12));
  writer.finish();
  out.close();
  const std::string bytes = read_file(scratch / "x.pt");
  const ZipArchive zip(std::as_bytes(std::span(bytes)));
  std::string names;
  for (const ZipEntry& entry : zip.entries()) names += cat(entry.name, " ", entry.data.size(), "; ");
  CHECK(names == "x/data.pkl 238; x/byteorder 6; x/data/0 12; x/version 2; ");
  CHECK(pickle_value_text(TorchFile(scratch / "x.pt").root()) ==
        "{'w': torch._utils._rebuild_tensor_v2(<('storage', torch.BFloat16Storage, '0', 'cpu', 6)>, 0, (2, 3), (3, 1), "
        "False, {})None, 'd': torch.float16, 'n': -2147483648, 'n': 2147483647, 'n': 2147483648, 'n': -2147483649}");
}
