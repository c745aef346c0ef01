// Megatron-LM's checkpoints: every golden case equals its model, bit for bit, as whole tensors and as slices.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/json.h"
#include "base/usage_error.h"
#include "ckpt/open_model.h"
#include "models/mapped_reader.h"
#include "tests/axis_slice.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;
using namespace std::string_literals;

namespace {

const std::string kCases = "golden/megatron_ckpt/";
const std::string kModel = "golden/gpt2_model/a";

ModelSource open_case(const std::string& path, std::optional<std::int64_t> vocab = 512,
                      std::optional<std::int64_t> heads = 4) {
  Console console = quiet_console();
  return open_model(path, console, {.vocab_size = vocab, .num_attention_heads = heads});
}

/// Copies a case's folder; returns the path of the copy.
std::string copy_case(const ScratchFolder& scratch, const std::string& from) {
  const std::string to = scratch / "copy";
  fs::remove_all(to);
  fs::copy(kCases + from, to, fs::copy_options::recursive);
  return to;
}

}  // namespace

TEST_CASE("megatron: what identifies a large file includes both of its ends") {
  std::vector<std::byte> bytes(100'000);
  const auto digest = [&] {
    Hasher hasher;
    hash_sample(hasher, bytes, 4);
    return hasher.digest();
  };
  const std::uint64_t before = digest();
  for (std::byte* end : {&bytes.front(), &bytes.back()}) {
    *end = std::byte{1};
    CHECK(digest() != before);
    *end = std::byte{0};
  }
}

TEST_CASE("megatron: the golden cases equal their model bit for bit") {
  const ModelSource expected = open_case(kModel);
  int cases = 0;
  for (const Json& entry : golden_lines(kCases + "cases.jsonl")) {
    const std::string path = kCases + entry.at("dir").as_string();
    CAPTURE(path);
    ++cases;
    const ModelSource source = open_case(path, 512, entry.at("args").as_bool() ? std::nullopt : std::optional(4));
    CHECK(source.kind() == "Megatron-LM checkpoint");
    CHECK(source.config() == expected.config());
    CHECK(source.dropout().has_value() == entry.at("args").as_bool());
    source.verify();
    for (const SavedTensor& tensor : expected.tensors()) {
      CAPTURE(tensor.name);
      const Slice whole = whole_slice(tensor.shape);
      CHECK(same_bits(elements_of(source, tensor.name, whole), elements_of(expected, tensor.name, whole)));
      for (int axis = 0; axis < static_cast<int>(tensor.shape.size()); ++axis) {
        for (std::int64_t parts : {2, 4}) {
          if (tensor.shape[axis] % parts != 0) continue;
          Slice slice = axis_slice(tensor.shape, axis, parts - 1, parts);
          CHECK(same_bits(elements_of(source, tensor.name, slice), elements_of(expected, tensor.name, slice)));
          slice.begin = slice.count() / 3, slice.end -= 1;
          if (slice.count() > 0)
            CHECK(same_bits(elements_of(source, tensor.name, slice), elements_of(expected, tensor.name, slice)));
        }
      }
    }
  }
  CHECK(cases == 11);
}

TEST_CASE("megatron: the chunks of an interleaved pipeline are read in the model's order") {
  const ModelSource source = open_case("golden/megatron_chunks", 12, std::nullopt);
  REQUIRE(source.config().num_layers == 8);
  for (int layer = 0; layer < 8; ++layer) {  // megatron-core's number of the layer
    const std::vector<float> bias = elements_of(source, cat("param.layers.", layer, ".norm1.bias"), whole_slice({8}));
    CHECK(bias == std::vector<float>(8, float(layer)));
  }
}

TEST_CASE("megatron: the optimizer's moments match their parameters") {
  const ModelSource source = open_case(kCases + "legacy_tp1pp1"), other = open_case(kCases + "legacy_tp2pp2");
  CHECK(source.has_optimizer());
  CHECK(source.optimizer_problem().empty());
  CHECK(!other.has_optimizer());
  CHECK(!other.state());
  REQUIRE(source.state());
  CHECK(source.state()->iteration == 30);
  CHECK(source.state()->optimizer_steps == 30);
  CHECK(source.state()->consumed_samples == 240);
  CHECK(source.state()->skipped_iterations == 0);
  CHECK(source.state()->extra.int_or("skipped_samples", -1) == 0);
  // Megatron-LM's names and mtl's. In version 3.0, both order the query, key and value rows the same way.
  const std::pair<const char*, const char*> renamed[] = {
      {"language_model.embedding.word_embeddings", "embedding.tokens"},
      {"language_model.embedding.position_embeddings", "embedding.positions"},
      {"language_model.encoder.", ""},
      {"input_layernorm", "norm1"},
      {"post_attention_layernorm", "norm2"},
      {"final_layernorm", "final_norm"},
      {"self_attention.query_key_value", "attention.qkv"},
      {"self_attention.dense", "attention.out"},
      {"dense_h_to_4h", "up"},
      {"dense_4h_to_h", "down"}};
  int parameters = 0;
  const Json golden = Json::read(kCases + "optimizer_expected.json");
  for (const Json& entry : golden.at("parameters").as_array()) {
    std::string name = entry.at("name").as_string();
    for (const auto& [from, to] : renamed) {
      if (const std::size_t at = name.find(from); at != std::string::npos)
        name.replace(at, std::string_view(from).size(), to);
    }
    CAPTURE(name);
    const std::int64_t n = entry.at("index").as_int();
    for (const std::string& kind : {"exp_avg"s, "exp_avg_sq"s}) {
      const SavedTensor* tensor = source.find_tensor(cat(kind, ".", name));
      REQUIRE(tensor != nullptr);
      std::vector<float> expected(whole_slice(tensor->shape).count());
      for (std::int64_t i = 0; i < std::ssize(expected); ++i) {
        expected[i] = kind == "exp_avg" ? std::ldexp(float((7 * i + 13 * n) % 1001 - 500), -20)
                                        : std::ldexp(float((11 * i + 13 * n) % 1009), -30);
      }
      CHECK(same_bits(elements_of(source, tensor->name, whole_slice(tensor->shape)), expected));
    }
    ++parameters;
  }
  CHECK(parameters == 28);
}

TEST_CASE("megatron: reading a slice reads only what it needs") {
  const ModelSource source = open_case(kCases + "mcore_te_tp2pp1");
  std::vector<std::byte> out(64 * 2);
  Slice slice = whole_slice({512, 64});
  slice.begin = 64 * 300, slice.end = slice.begin + 64;
  source.read("param.embedding.tokens.weight", slice, out);
  CHECK(source.bytes_read() == out.size());
}

TEST_CASE("megatron: padding rows are kept unless the vocabulary size is known") {
  Console console = quiet_console();
  ModelSource source = open_case(kCases + "mcore_local_tp1pp1", std::nullopt, std::nullopt);
  CHECK(source.config().vocab_size == 600);
  for (const std::int64_t tokens : {0, -1}) CHECK_THROWS_AS(source.trim_vocabulary(tokens, console), Error);
  CHECK(source.config().vocab_size == 600);
  source.trim_vocabulary(512, console);
  CHECK(source.config() == open_case(kModel).config());
  const Slice whole = whole_slice({512, 64});
  CHECK(same_bits(elements_of(source, "param.embedding.tokens.weight", whole),
                  elements_of(open_case(kModel), "param.embedding.tokens.weight", whole)));
  CHECK(contains(error_of([] { open_case(kCases + "v1_tp1", 513); }, Exit::usage), "exceeds the 512 rows"));
}

TEST_CASE("megatron: the number of heads comes from args or a flag") {
  CHECK(contains(error_of([] { open_case(kCases + "v0_tp1", 512, std::nullopt); }, Exit::usage),
                 "--num-attention-heads"));
  CHECK(contains(error_of([] { open_case(kCases + "v1_tp1", 512, 8); }, Exit::usage), "has 4 heads"));
  CHECK(contains(error_of([] { open_case(kCases + "v0_tp1", 512, 5); }, Exit::usage),
                 "--num-attention-heads 5  does not divide the hidden size 64"));
  Console console = quiet_console();
  const ModelSupplement of_preset{
      .vocab_size = 512, .num_attention_heads = 5, .heads_flag = "--model m, --num-attention-heads"};
  CHECK(contains(error_of([&] { open_model(kCases + "v0_tp1", console, of_preset); }, Exit::usage),
                 "--model m, --num-attention-heads 5  does not divide"));
}

TEST_CASE("megatron: a path may name an iteration, a rank's folder or a file") {
  for (const char* path :
       {"v1_tp1/iter_0000030", "v1_tp1/iter_0000030/mp_rank_00", "v1_tp1/iter_0000030/mp_rank_00/model_optim_rng.pt"}) {
    CAPTURE(path);
    CHECK(open_case(kCases + path).config().num_layers == 2);
  }
  CHECK(contains(error_of([] { open_case(kCases + "v0_tp2/iter_0000030/mp_rank_01"); }, Exit::bad_data),
                 "2 tensor parallel ranks, but there are files of 1"));
}

TEST_CASE("megatron: hostile files in a checkpoint's folder are refused with their path") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "release/mp_rank_00";
  make_directories(folder);
  for (const Json& entry : golden_lines(kCases + "bad.jsonl")) {
    CAPTURE(entry.at("file").as_string());
    fs::copy_file(kCases + entry.at("file").as_string(), folder + "/model_optim_rng.pt",
                  fs::copy_options::overwrite_existing);
    const std::string error = error_of([&] { open_case(scratch.path()); }, Exit::bad_data);
    CHECK(contains(error, "model_optim_rng.pt: "));
  }
}

TEST_CASE("megatron: checkpoints beside mtl's in one folder are not guessed at, whatever their format") {
  const ScratchFolder scratch;
  const std::string folder = scratch / "mixed";
  TestParams model(tiny_config());
  for (const auto& [golden, name] : {std::pair("golden/dist_ckpt/core012_llama_dp3/iter_0000030", "iter_0000030"),
                                     std::pair("golden/megatron_ckpt/mcore_te_tp2pp1/iter_0000030", "release")}) {
    CAPTURE(name);
    fs::remove_all(folder);
    save_alone(SaveDirectory(folder), tiny_config(), model.params, state_at(1));
    fs::copy(golden, cat(folder, "/", name), fs::copy_options::recursive);
    CHECK(contains(error_of([&] { open_quietly(folder); }, Exit::bad_data),
                   cat("contains checkpoints of mtl (iter_0000001) and of Megatron-LM (", name, ")")));
  }
}

TEST_CASE("megatron: an incomplete folder is refused") {
  const ScratchFolder scratch;
  std::string path = copy_case(scratch, "legacy_tp2pp2");
  fs::remove_all(path + "/iter_0000030/mp_rank_01_001");
  CHECK(contains(error_of([&] { open_case(path); }, Exit::bad_data), "tensor parallel rank 1 on pipeline stage 1"));
  fs::remove_all(path + "/iter_0000030/mp_rank_00_001");
  CHECK(contains(error_of([&] { open_case(path); }, Exit::bad_data),
                 "2 pipeline parallel ranks, but there are files of 1"));

  path = copy_case(scratch, "v1_tp1");
  write_text(path + "/latest_checkpointed_iteration.txt", "40\n");
  CHECK(open_case(path).config().num_layers == 2);
  write_text(path + "/latest_checkpointed_iteration.txt", "");
  CHECK(open_case(path).config().num_layers == 2);
  flip_bit(path + "/iter_0000030/mp_rank_00/model_optim_rng.pt", 200000);
  CHECK(contains(error_of([&] { open_case(path).verify(); }, Exit::bad_data), "is damaged"));

  path = copy_case(scratch, "v0_tp2");  // rank 2 replaces rank 1
  fs::remove_all(path + "/iter_0000030/mp_rank_01");
  fs::copy(path + "/iter_0000030/mp_rank_00", path + "/iter_0000030/mp_rank_02");
  CHECK(contains(error_of([&] { open_case(path); }, Exit::bad_data), "rank 1 on pipeline stage 0 is missing"));
}

TEST_CASE("megatron: a damaged shard is found when it is loaded") {
  const ScratchFolder scratch;
  const std::string path = copy_case(scratch, "v1_tp1");
  const std::string file = path + "/iter_0000030/mp_rank_00/model_optim_rng.pt";
  flip_bit(file, 200000);
  const ModelSource source = open_case(path);
  TestParams loaded(source.config());
  CHECK(contains(error_of([&] { source.load_values(loaded.params); }, Exit::bad_data),
                 file + ": zip archive: the data of entry"));
}

TEST_CASE("megatron: damage to a pickle is an error or a readable model") {
  // The older format has no checksum, so damage reaches every part of the reader.
  std::mt19937 random(20261123);
  const ScratchFolder scratch;
  const std::string path = scratch / "damaged.pt";
  const std::string whole = read_file(kCases + "v0_tp1/release/mp_rank_00/model_optim_rng.pt");
  constexpr std::size_t kPickleBytes = 3913;
  int opened = 0, refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::string damaged = whole;
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const std::size_t at = random() % kPickleBytes;
      if (random() % 3 == 0) {
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
      } else if (random() % 2 == 0) {
        damaged.replace(at, 6, whole.substr(random() % kPickleBytes, 6));
      } else {
        damaged[at] = static_cast<char>('0' + random() % 10);  // digits within names
      }
    }
    write_text(path, damaged);
    try {
      const ModelSource source = open_case(path);
      source.verify();
      for (const SavedTensor& tensor : source.tensors()) elements_of(source, tensor.name, whole_slice(tensor.shape));
      ++opened;
    } catch (const Error& error) {
      CHECK((error.code() == Exit::bad_data || error.code() == Exit::usage));
      ++refused;
    }
  }
  CHECK(opened > 5);
  CHECK(refused > 100);
}

TEST_CASE("megatron: a huge layer number is refused before layers are listed") {
  const ScratchFolder scratch;
  const std::string path = scratch / "layers.pt";
  std::string content = read_file(kCases + "v0_tp1/release/mp_rank_00/model_optim_rng.pt");
  // BINUNICODE: a 4-byte length, then "layers.1.input_layernorm.weight".
  const std::string name = "layers.1.input_layernorm.weight", larger = "layers.123456789.input_layernorm.weight";
  const std::size_t at = content.find(name);
  REQUIRE(at != std::string::npos);
  content.replace(at, name.size(), larger);
  content[at - 4] = static_cast<char>(larger.size());
  write_text(path, content);
  CHECK(contains(error_of([&] { open_case(path); }, Exit::bad_data), "123,456,790 layers"));
}
