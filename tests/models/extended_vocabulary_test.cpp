// New rows in the token embedding and the output layer of a loaded model.
#include "models/extended_vocabulary.h"
#include "ckpt/open_model.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/init.h"
#include "nn/model_params.h"
#include "tests/axis_slice.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::uint64_t kSeed = 16;

ModelSource open_llama_like(const std::string& name) {
  Console console = quiet_console();
  return open_model("golden/llama_model/" + name, console);
}

/// Returns a slice of a parameter in fp32.
std::vector<float> read_slice_of(const ModelSource& source, const std::string& name, const Slice& slice) {
  const SavedTensor& tensor = *source.find_tensor("param." + name);
  std::vector<std::byte> stored(static_cast<std::size_t>(slice.count() * bits_of(tensor.dtype) / 8));
  source.read("param." + name, slice, stored);
  std::vector<float> out(static_cast<std::size_t>(slice.count()));
  to_float(tensor.dtype, stored, out);
  return out;
}

std::vector<float> read_table(const ModelSource& source, const std::string& name) {
  return read_slice_of(source, name, whole_slice(source.find_tensor("param." + name)->shape));
}

/// Returns fp16's rounding, in which the golden models store their weights.
float as_stored(float value) {
  float out = 0;
  std::vector<std::byte> half(2);
  convert_elements(StoredDType::f32, std::as_bytes(std::span(&value, 1)), StoredDType::f16, half);
  to_float(StoredDType::f16, half, std::span(&out, 1));
  return out;
}

}  // namespace

TEST_CASE("extended vocabulary: old rows stay, and new ones are the mean of the old ones, in tied and untied models") {
  for (const auto& [model, tables] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"llama", {"embedding.tokens.weight", "output.weight"}}, {"qwen2", {"embedding.tokens.weight"}}}) {
    CAPTURE(model);
    const ModelSource original = open_llama_like(model);
    ModelSource extended = open_llama_like(model);
    const std::int64_t tokens = original.config().vocab_size;
    extended.extend_vocabulary(tokens + 3, NewRows::mean, kSeed);
    CHECK(extended.config().vocab_size == tokens + 3);
    for (const std::string& table : tables) {
      CAPTURE(table);
      const std::vector<float> before = read_table(original, table), after = read_table(extended, table);
      const std::size_t width = before.size() / static_cast<std::size_t>(tokens);
      REQUIRE(after.size() == before.size() + 3 * width);
      CHECK(std::equal(before.begin(), before.end(), after.begin()));
      std::vector<double> mean(width);
      for (std::size_t i = 0; i < before.size(); ++i) mean[i % width] += double{before[i]};
      int wrong = 0;
      for (std::size_t i = 0; i < 3 * width; ++i)
        wrong += after[before.size() + i] != as_stored(static_cast<float>(mean[i % width] / double(tokens)));
      CHECK(wrong == 0);
    }
    for (const SavedTensor& tensor : extended.tensors())
      CHECK(tensor.shape.size() == original.find_tensor(tensor.name)->shape.size());
    CHECK(extended.identity() != original.identity());
  }
}

TEST_CASE("extended vocabulary: initialized rows are those of a new model of the new size") {
  ModelSource source = open_llama_like("llama");
  const std::int64_t tokens = source.config().vocab_size;
  source.extend_vocabulary(tokens + 40, NewRows::init, kSeed);
  for (const ParamSpec& spec : model_params(source.config())) {
    if (spec.name != "embedding.tokens.weight" && spec.name != "output.weight") continue;
    std::vector<float> fresh(static_cast<std::size_t>(spec.numel()));
    initialize_param({Tensor(fresh.data(), DType::f32, {spec.numel()})}, whole_slice(spec.shape), spec, kSeed,
                     DType::f32);
    const std::vector<float> got = read_table(source, spec.name);
    const auto first = static_cast<std::size_t>(tokens * spec.shape[1]);
    int wrong = 0;
    for (std::size_t i = first; i < got.size(); ++i) wrong += got[i] != as_stored(fresh[i]);
    CHECK(wrong == 0);
    CHECK(got[first] != got[first + 1]);
  }
}

TEST_CASE("extended vocabulary: every part of a table has the same rows") {
  for (const NewRows rows : {NewRows::mean, NewRows::init}) {
    ModelSource source = open_llama_like("llama");
    source.extend_vocabulary(source.config().vocab_size + 88, rows, kSeed);  // 600 rows
    const std::string name = "output.weight";
    const std::vector<std::int64_t>& shape = source.find_tensor("param." + name)->shape;
    const std::vector<float> whole = read_table(source, name);
    for (const std::int64_t parts : {2, 3, 8}) {
      for (std::int64_t part = 0; part < parts; ++part) {
        Slice slice = axis_slice(shape, 0, part, parts);
        const std::size_t at = static_cast<std::size_t>(slice.offset[0] * shape[1]);
        // A range within the part, as an optimizer that is sharded over two ranks has it.
        for (const auto& [begin, end] : {std::pair(std::int64_t{0}, slice.count()),
                                         std::pair<std::int64_t, std::int64_t>(slice.count() / 2 - 5, slice.count())}) {
          Slice range = slice;
          range.begin = begin;
          range.end = end;
          const std::vector<float> got = read_slice_of(source, name, range);
          CHECK(std::equal(got.begin(), got.end(), whole.begin() + static_cast<std::ptrdiff_t>(at) + begin));
        }
      }
    }
  }
}

TEST_CASE("extended vocabulary: damage in the files is found") {
  const ScratchFolder scratch;
  TestParams model(tiny_config(), false);
  const auto save = [&] {
    fs::remove_all(scratch / "s");
    return save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state_at(1),
                      {.add_files = [](const std::string& folder) { write_text(folder + "/merges.txt", "a b"); }});
  };
  const auto extended = [](const std::string& folder) {
    ModelSource source = open_quietly(folder);
    source.extend_vocabulary(20, NewRows::mean, kSeed);
    return source;
  };
  std::string folder = save();
  flip_bit(folder + "/shard_00000.safetensors", fs::file_size(folder + "/shard_00000.safetensors") - 1);
  GptConfig larger = tiny_config();
  larger.vocab_size = 20;
  TestParams loaded(larger, false);
  const std::string damage = "shard_00000.safetensors does not match its hash";
  CHECK(contains(error_of([&] { extended(folder).verify(); }, Exit::bad_data), damage));
  CHECK(contains(error_of([&] { extended(folder).load_values(loaded.params); }, Exit::bad_data), damage));
  folder = save();
  extended(folder).load_values(loaded.params);
  write_text(folder + "/merges.txt", "a c");
  CHECK(contains(error_of([&] { extended(folder).verify(); }, Exit::bad_data), "merges.txt does not match its hash"));
}

TEST_CASE("extended vocabulary: fewer tokens are refused; optimizer states are not extended") {
  ModelSource source = open_llama_like("llama");
  CHECK(contains(error_of([&] { source.extend_vocabulary(512, NewRows::mean, kSeed); }),
                 "512 tokens, but the model has"));
  CHECK(contains(error_of([] { parse_new_rows("zero"); }), "neither mean nor init"));
}
