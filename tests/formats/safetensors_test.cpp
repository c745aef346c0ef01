// safetensors: every golden case, element values, and damaged files.
#include "formats/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/json.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

double number_of(const Json& value) {
  if (!value.is_string()) return value.as_number();
  const std::string& text = value.as_string();
  return text == "nan" ? NAN : text == "inf" ? HUGE_VAL : -HUGE_VAL;
}

/// Returns a tensor's elements in fp32. The dtype must be convertible.
std::vector<float> floats_of(const SafetensorsFile& file, const StoredTensor& tensor) {
  std::span<const std::byte> data = file.data(tensor);
  std::vector<float> out(data.size() * 8 / static_cast<std::size_t>(bits_of(tensor.dtype)));
  to_float(tensor.dtype, data, out);
  return out;
}

void check_valid(const Json& entry) {
  SafetensorsFile file("golden/safetensors/" + entry.at("file").as_string());
  CHECK(file.tensors().size() == entry.at("tensors").as_object().size());
  for (const auto& [name, expected] : entry.at("tensors").as_object()) {
    CAPTURE(name);
    const StoredTensor* tensor = file.find(name);
    REQUIRE(tensor != nullptr);
    CHECK(name_of(tensor->dtype) == expected.at("dtype").as_string());
    REQUIRE(tensor->shape.size() == expected.at("shape").as_array().size());
    for (std::size_t i = 0; i < tensor->shape.size(); ++i) {
      CHECK(tensor->shape[i] == static_cast<std::uint64_t>(expected.at("shape").as_array()[i].as_int()));
    }
    if (!is_model_dtype(tensor->dtype)) continue;
    std::vector<float> values = floats_of(file, *tensor);
    const Json::Array& expected_values = expected.at("values").as_array();
    CHECK(expected_values.size() == std::min<std::size_t>(16, values.size()));
    for (std::size_t i = 0; i < expected_values.size(); ++i) {
      double value = number_of(expected_values[i]);
      if (std::isnan(value)) {
        CHECK(std::isnan(values[i]));
      } else {
        CHECK(values[i] == static_cast<float>(value));
        CHECK(std::signbit(values[i]) == std::signbit(value));
      }
    }
  }
  if (entry.at("metadata").is_object()) {
    CHECK(file.metadata().size() == entry.at("metadata").as_object().size());
    for (const auto& [key, value] : entry.at("metadata").as_object())
      CHECK(file.metadata().at(key) == value.as_string());
  }
}

/// Returns a file that contains this header, followed by `bytes` zero bytes of data.
std::string file_of(const std::string& header, std::size_t bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return out + header + std::string(bytes, '\0');
}

}  // namespace

TEST_CASE("safetensors: the golden cases are accepted or refused as marked") {
  int cases = 0;
  for (const Json& entry : golden_lines("golden/safetensors/cases.jsonl")) {
    std::string path = "golden/safetensors/" + entry.at("file").as_string();
    CAPTURE(path);
    ++cases;
    if (entry.at("strict").as_bool()) {
      CHECK_NOTHROW(check_valid(entry));
    } else {
      std::string error = error_of([&] { SafetensorsFile file(path); });
      CHECK(error.starts_with(path));
    }
  }
  CHECK(cases == 62);
}

TEST_CASE(
    "safetensors: duplicate keys, values outside JSON and overflowing offsets are refused; sub-byte types are read") {
  const std::string plain = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  ScratchFolder scratch;
  auto error_for = [&](const std::string& content) {
    write_text(scratch / "f", content);
    return error_of([&] { SafetensorsFile file(scratch / "f"); });
  };
  CHECK(error_for(file_of(plain, 1)) == "");
  CHECK(error_for(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)) != "");
  CHECK(error_for(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":NaN}})", 1)) != "");
  CHECK(error_for(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[-Infinity]}})", 1)) != "");
  CHECK(error_for(file_of(R"({"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}})", 0)) != "");
  CHECK(error_for(file_of(R"({"\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)) != "");
  CHECK(error_for(file_of(R"({"__metadata__":{"a":"b","a":"b"}})", 0)) != "");
  CHECK(contains(error_for(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})", 1)),
                 "end at 18446744073709551615, but"));
  CHECK(contains(error_for(std::string(8, '\xFF') + plain), "the header 18446744073709551615 bytes"));
  const std::string unknown = error_for(file_of(R"({"a":{"dtype":"F3","shape":[8],"data_offsets":[0,3]}})", 3));
  CHECK(contains(unknown, "'F3'; save the tensor as float32"));
  CHECK_FALSE(contains(unknown, "damaged"));
  CHECK(error_for(file_of(R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2)) == "");
  CHECK(error_for(file_of(R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3)) == "");
}

TEST_CASE("safetensors: tensors read back as written, aligned and in order") {
  ScratchFolder scratch;
  std::vector<StoredTensor> plan = {{.name = "z", .dtype = StoredDType::f32, .shape = {2, 3}},
                                    {.name = "\"ü\n", .dtype = StoredDType::i64, .shape = {}},
                                    {.name = "e", .dtype = StoredDType::u8, .shape = {0, 7}}};
  std::string data(32, 'x');
  OutputFile out(scratch / "f");
  SafetensorsWriter writer(out, plan, {{"format", "pt"}, {"k", "\\"}});
  writer.write(std::as_bytes(std::span(data)).first(5));
  CHECK_THROWS_AS(writer.finish(), Error);
  writer.write(std::as_bytes(std::span(data)).subspan(5));
  CHECK_NOTHROW(writer.finish());
  out.close();
  SafetensorsFile file(scratch / "f");
  CHECK(file.tensors().size() == 3);
  CHECK(file.find("z")->end == 24);
  CHECK(file.data(*file.find("\"ü\n")).size() == 8);
  CHECK(file.find("e")->shape == std::vector<std::uint64_t>{0, 7});
  CHECK(file.metadata().at("k") == "\\");
  CHECK(reinterpret_cast<std::uintptr_t>(file.data(*file.find("z")).data()) % 8 == 0);
}

TEST_CASE("safetensors: seeded damage to real files is an error or a different file, never a crash") {
  ScratchFolder scratch;
  std::mt19937 random(7);
  for (const char* name : {"all_dtypes", "metadata", "zero_in_middle", "name_unicode", "unordered_header"}) {
    std::string content = read_file(cat("golden/safetensors/files/", name, ".safetensors"));
    for (int round = 0; round < 400; ++round) {
      std::string damaged = content;
      for (unsigned i = 0, count = 1 + random() % 3; i < count; ++i) {
        std::size_t at = random() % damaged.size();
        switch (random() % 4) {
          case 0:
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
            break;
          case 1:
            damaged.erase(at, 1 + random() % 4);
            break;
          case 2:
            damaged.insert(at, 1, "0{}[],:\"9-e"[random() % 11]);
            break;
          default:
            damaged.resize(at + 1);
        }
        if (damaged.empty()) break;
      }
      write_text(scratch / "f", damaged);
      try {
        SafetensorsFile file(scratch / "f");
        for (const StoredTensor& tensor : file.tensors()) CHECK(file.data(tensor).size() == tensor.end - tensor.begin);
      } catch (const Error& error) {
        CHECK(error.code() == Exit::bad_data);
      }
    }
  }
}

TEST_CASE("stored dtypes: every f16 and bf16 pattern round-trips through fp32; f64 rounds once") {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(patterns.size());
  std::vector<std::uint16_t> back(patterns.size());
  for (StoredDType dtype : {StoredDType::f16, StoredDType::bf16}) {
    to_float(dtype, std::as_bytes(std::span(patterns)), wide);
    convert_elements(StoredDType::f32, std::as_bytes(std::span(wide)), dtype, std::as_writable_bytes(std::span(back)));
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < patterns.size(); ++i) wrong += !std::isnan(wide[i]) && back[i] != patterns[i];
    CHECK(wrong == 0);
  }
  // 1 + 2^-11 + 2^-40 is above the midpoint between two f16 numbers. Rounding through fp32 would lose the last term.
  double values[] = {1 + std::ldexp(1, -11) + std::ldexp(1, -40), -(1 + std::ldexp(1, -11)), 1e300,
                     std::ldexp(1, -25) + std::ldexp(1, -70)};
  std::uint16_t half[4];
  convert_elements(StoredDType::f64, std::as_bytes(std::span(values)), StoredDType::f16,
                   std::as_writable_bytes(std::span(half)));
  CHECK(half[0] == 0x3C01);
  CHECK(half[1] == 0xBC00);
  CHECK(half[2] == 0x7C00);
  CHECK(half[3] == 0x0001);
}

TEST_CASE("safetensors: each fault of a file is refused for its own reason") {
  const ScratchFolder scratch;
  const auto open_bytes = [&](const std::string& bytes) {
    write_text(scratch / "f", bytes);
    return error_of([&] { SafetensorsFile{scratch / "f"}; }, Exit::bad_data);
  };
  const auto open = [&](const std::string& header, std::size_t data = 4) {
    return open_bytes(cat(to_little_endian(header.size(), 8), header, std::string(data, 'x')));
  };
  const auto tensor = [](const std::string& fields) { return cat(R"({"a":{)", fields, "}}"); };
  const std::string dtype = R"("dtype":"F32")", shape = R"("shape":[1])", offsets = R"("data_offsets":[0,4])";
  const std::string good = cat(dtype, ",", shape, ",", offsets);
  const std::pair<std::string, const char*> cases[] = {
      {tensor(good), ""},
      {tensor(R"("x":{"y":[1,{"z":-1}],"n":null},)" + good), ""},
      {cat(tensor(good), "  "), ""},
      {tensor(cat(dtype, ",", good)), "tensor 'a': dtype is listed twice"},
      {tensor(cat(shape, ",", good)), "tensor 'a': shape is listed twice"},
      {tensor(cat(offsets, ",", good)), "tensor 'a': data_offsets is listed twice"},
      {tensor(cat(dtype, ",", shape)), "needs dtype, shape, and data_offsets of two numbers"},
      {tensor(cat(dtype, ",", offsets)), "needs dtype, shape, and data_offsets of two numbers"},
      {tensor(cat(shape, ",", offsets)), "needs dtype, shape, and data_offsets of two numbers"},
      {tensor(cat(dtype, ",", shape, R"(,"data_offsets":[0,4,4])")), "data_offsets of two numbers"},
      {R"({"a":[1]})", "tensor 'a' is not an object"},
      {R"({"__metadata__":{},"__metadata__":{}})", "__metadata__ is listed twice"},
      {R"({"__metadata__":{"b":1}})", "__metadata__ 'b' is not a string"},
      {R"({"__metadata__":{"b":"1","b":"2"}})", "__metadata__ 'b' is listed twice"},
      {tensor(R"("x":NaN,)" + good), "NaN and Infinity are not JSON"},
      {tensor(R"("x":{"y":[Infinity]},)" + good), "NaN and Infinity are not JSON"},
      {tensor(R"("x":[-Infinity],)" + good), "-Infinity is not JSON"},
      {tensor(cat(R"("dtype":"F33",)", shape, ",", offsets)), "the dtype 'F33'; save the tensor as float32"},
      {tensor(cat(R"("dtype":"F4",)", shape, ",", offsets)), "its elements do not fill whole bytes"},
      {tensor(cat(dtype, R"(,"shape":[1.5],)", offsets)), "'1.5' is not a size or offset"},
      {tensor(cat(dtype, R"(,"shape":[-1],)", offsets)), "'-1' is not a size or offset"},
      {tensor(cat(dtype, R"(,"shape":[4294967296,4294967296],)", offsets)), "the product of its shape exceeds 64 bits"},
      {tensor(cat(dtype, R"(,"shape":[2],)", offsets)), "its shape needs 8 bytes, but its data have 4"},
      {tensor(cat(dtype, ",", shape, R"(,"data_offsets":[1,5])")),
       "its data begin at 1, but the data before it end at 0"},
      {tensor(cat(dtype, R"(,"shape":[2],"data_offsets":[0,8])")), "but the file has only 4 bytes of data"},
      {cat("{\"a\":{", good, "},\"b\":{", dtype, R"(,"shape":[0],"data_offsets":[4,3]}})"), "before they begin at 4"},
      {cat("{\"a\":{", good, "},\"a\":{", dtype, R"(,"shape":[0],"data_offsets":[4,4]}})"), "'a' is listed twice"},
      {"{}", "has 4 bytes after the last tensor"},
      {" {}", "the header does not begin with '{'"},
      {"", "the header does not begin with '{'"},
      {"{\"\xFF\":1}", "header byte 3: the text is not UTF-8"},
      {R"({"\ud800":{}})", "half a surrogate pair"}};
  for (const auto& [header, message] : cases) {
    CAPTURE(header);
    const std::string error = open(header);
    CHECK(error.empty() == (*message == '\0'));
    CHECK(contains(error, message));
  }
  CHECK(open("{}", 0).empty());
  CHECK(contains(open_bytes("1234567"), "has 7 bytes, too few for a safetensors file"));
  CHECK(contains(open_bytes(to_little_endian(100'000'001, 8)), "the limit is 100,000,000"));
  CHECK(contains(open_bytes(to_little_endian(100'000'000, 8)), "but its header alone needs 100,000,000"));
  CHECK(contains(open_bytes(to_little_endian(3, 8) + "{}"), "has 10 bytes, but its header alone needs 3"));
}

TEST_CASE("stored dtypes: rounding agrees up to the sign of zero and the bits of NaN; f64's NaN stays NaN") {
  const auto agree = [](float wide, float stored) {
    return rounds_to(StoredDType::f32, std::as_bytes(std::span(&wide, 1)), StoredDType::f32,
                     std::as_bytes(std::span(&stored, 1)));
  };
  CHECK(agree(1, 1));
  CHECK(agree(0.0F, -0.0F));
  CHECK(agree(NAN, -NAN));
  CHECK_FALSE(agree(1, 2));
  CHECK_FALSE(agree(NAN, 1));
  CHECK_FALSE(agree(1, NAN));
  const double wide = NAN;
  std::vector<std::byte> half(2);
  convert_elements(StoredDType::f64, std::as_bytes(std::span(&wide, 1)), StoredDType::f16, half);
  float back = 0;
  to_float(StoredDType::f16, half, std::span(&back, 1));
  CHECK(std::isnan(back));
}
