// safetensors: every golden case, element values, and damaged files.
#include "ckpt/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/json.h"
#include "ckpt_fixtures.h"
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
