// Hugging Face folders for GPT-2: reads what transformers wrote, and writes the same file.
#include <doctest/doctest.h>

#include "ckpt/output_folder.h"
#include "formats/safetensors.h"
#include "models/companion_files.h"
#include "models/hf_folder.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/param_index.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::string golden(const std::string& model) { return "golden/gpt2_model/" + model; }

/// Copies model a to the folder `to`, applying `change` to its config.json.
void copy_model(const std::string& to, const std::function<void(Json&)>& change) {
  fs::create_directories(to);
  fs::copy_file(golden("a") + "/model.safetensors", to + "/model.safetensors");
  Json config = Json::read(golden("a") + "/config.json");
  change(config);
  write_text(to + "/config.json", config.dump(2));
}

/// Rewrites a safetensors file with renamed tensors and, if `extra` is given, an additional tensor.
void rename_tensors(const std::string& from, const std::string& to,
                    const std::function<std::string(const std::string&)>& rename, const std::string& extra = "") {
  SafetensorsFile source(from);
  std::vector<StoredTensor> plan = source.tensors();
  for (StoredTensor& tensor : plan) tensor.name = rename(tensor.name);
  if (!extra.empty()) plan.push_back({.name = extra, .dtype = StoredDType::f32, .shape = {2}});
  OutputFile out(to);
  SafetensorsWriter writer(out, plan);
  for (const StoredTensor& tensor : source.tensors()) writer.write(source.data(tensor));
  float zeros[2] = {};
  if (!extra.empty()) writer.write(std::as_bytes(std::span(zeros)));
  writer.finish();
  out.close();
}

}  // namespace

TEST_CASE("hf: a weight is where GPT-2's Conv1D has it, element by element") {
  ModelSource source = open_quietly(golden("a"));
  const GptConfig& config = source.config();
  CHECK(config.vocab_size == 512);
  CHECK(config.ffn_hidden_size == 256);
  TestParams model(config, false, 640);
  source.load_values(model.params);
  SafetensorsFile file(golden("a") + "/model.safetensors");
  auto stored = [&](const std::string& name) {
    return reinterpret_cast<const float*>(file.data(*file.find(name)).data());
  };
  auto loaded = [&](const std::string& name) {
    return model.params.value(test::param_index(model.params, name)).data<float>();
  };
  const std::int64_t C = config.hidden_size, H = config.num_heads, D = config.head_dim, F = config.ffn_hidden_size;
  const float* qkv_hf = stored("transformer.h.1.attn.c_attn.weight");  // (C, 3, H, D)
  const float* bias_hf = stored("transformer.h.1.attn.c_attn.bias");
  std::int64_t wrong = 0;
  for (std::int64_t h = 0; h < H; ++h) {
    for (std::int64_t role = 0; role < 3; ++role) {
      for (std::int64_t d = 0; d < D; ++d) {
        std::int64_t row = (h * 3 + role) * D + d, column = (role * H + h) * D + d;
        wrong += loaded("layers.1.attention.qkv.bias")[row] != bias_hf[column];
        for (std::int64_t c = 0; c < C; ++c)
          wrong += loaded("layers.1.attention.qkv.weight")[row * C + c] != qkv_hf[c * 3 * C + column];
      }
    }
  }
  const float* down_hf = stored("transformer.h.0.mlp.c_proj.weight");  // (F, C)
  for (std::int64_t c = 0; c < C; ++c) {
    for (std::int64_t f = 0; f < F; ++f) wrong += loaded("layers.0.mlp.down.weight")[c * F + f] != down_hf[f * C + c];
  }
  for (std::int64_t i = 0; i < 512 * C; ++i)
    wrong += loaded("embedding.tokens.weight")[i] != stored("transformer.wte.weight")[i];
  for (std::int64_t i = 512 * C; i < 640 * C; ++i) wrong += loaded("embedding.tokens.weight")[i] != 0;
  CHECK(wrong == 0);
}

TEST_CASE("hf: writing a model in its dtype reproduces the file byte for byte") {
  for (std::string model : {"a", "b"}) {
    CAPTURE(model);
    ScratchFolder scratch;
    ModelSource source = open_quietly(golden(model));
    write_hf_folder(source, scratch.path(), {});
    CHECK(read_file(scratch / "model.safetensors") == read_file(golden(model) + "/model.safetensors"));
    CHECK(Json::read(scratch / "config.json").dump() == Json::read(golden(model) + "/config.json").dump());
    CHECK(read_file(scratch / "generation_config.json") == read_file(golden(model) + "/generation_config.json"));
  }
}

TEST_CASE("hf: shards hold the same tensors as one file") {
  ScratchFolder scratch;
  ModelSource source = open_quietly(golden("b"));
  write_hf_folder(source, scratch.path(), {.dtype = {}, .max_shard_bytes = 200'000, .end_of_text_id = {}});
  CHECK(!file_exists(scratch / "model.safetensors"));
  Json index = Json::read(scratch / "model.safetensors.index.json");
  CHECK(index.at("weight_map").as_object().size() == 40);
  CHECK(index.at("metadata").at("total_size").as_int() == 872'640);  // 436,320 two-byte parameters
  std::string last = index.at("weight_map").at("transformer.wte.weight").as_string();
  std::uint64_t largest = 0;
  SafetensorsFile shard(scratch / last);
  for (const StoredTensor& tensor : shard.tensors()) largest += tensor.end - tensor.begin;
  CHECK(largest <= 200'000);
  std::map<std::string, std::uint64_t> bytes;  // of the shards
  for (const auto& [tensor, file] : index.at("weight_map").as_object())
    bytes.try_emplace(file.as_string(), SafetensorsFile(scratch / file.as_string()).tensors().back().end);
  for (auto one = bytes.begin(), next = std::next(one); next != bytes.end(); ++one, ++next)
    CHECK(one->second + next->second > 200'000);  // no shard ends early
  TestParams original(source.config(), false), sharded(source.config(), false);
  source.load_values(original.params);
  open_quietly(scratch.path()).load_values(sharded.params);
  CHECK(same_tensors(original.params, sharded.params));
  fs::remove(scratch / last);
  std::string error = error_of([&] { open_quietly(scratch.path()); });
  CHECK(contains(error, last + " is missing, although"));
}

TEST_CASE("hf: a model is written in the requested dtype, with its name in config.json") {
  ScratchFolder scratch;
  ModelSource source = open_quietly(golden("a"));
  TestParams original(source.config(), false), half(source.config(), false);
  source.load_values(original.params);
  write_hf_folder(source, scratch.path(),
                  {.dtype = StoredDType::f16, .max_shard_bytes = 1u << 30, .end_of_text_id = {}});
  ModelSource written = open_quietly(scratch.path());
  CHECK(written.tensors()[0].dtype == StoredDType::f16);
  CHECK(written.hf_config().at("dtype").as_string() == "float16");
  written.load_values(half.params);
  CHECK(same_tensors(original.params, half.params));  // these weights are exact in fp16
}

TEST_CASE(
    "hf: old names and mask buffers are read; a differing tied output layer, extra and missing tensors are refused") {
  ScratchFolder scratch;
  copy_model(scratch / "m", [](Json&) {});
  std::string file = golden("a") + "/model.safetensors";
  auto bare = [](const std::string& name) { return name.substr(name.find('.') + 1); };
  rename_tensors(file, scratch / "m/model.safetensors", bare, "h.0.attn.masked_bias");
  ModelSource source = open_quietly(golden("a")), other = open_quietly(scratch / "m");
  TestParams a(source.config(), false), b(source.config(), false);
  source.load_values(a.params), other.load_values(b.params);
  CHECK(same_tensors(a.params, b.params));
  rename_tensors(file, scratch / "m/model.safetensors", bare, "lm_head.weight");
  CHECK(contains(error_of([&] { open_quietly(scratch / "m"); }),
                 "tensor 'lm_head.weight' differs from the token embedding"));
  rename_tensors(file, scratch / "m/model.safetensors", bare, "score.weight");
  CHECK(contains(error_of([&] { open_quietly(scratch / "m"); }),
                 "tensor 'score.weight' is not part of a language model of type gpt2"));
  rename_tensors(file, scratch / "m/model.safetensors", [](const std::string& name) {
    return name == "transformer.h.1.ln_2.bias" ? "transformer.h.0.attn.bias" : name;
  });
  CHECK(contains(error_of([&] { open_quietly(scratch / "m"); }), "tensor 'transformer.h.1.ln_2.bias' is missing"));
}

TEST_CASE("hf: keys that mtl would compute differently are refused by name") {
  struct Refusal {
    const char* key;
    Json value;
  };
  std::vector<Refusal> refusals = {{"scale_attn_by_inverse_layer_idx", true},
                                   {"add_cross_attention", true},
                                   {"scale_attn_weights", false},
                                   {"activation_function", "mish"},
                                   {"model_type", "bert"},
                                   {"n_embd", -64},
                                   {"n_layer", std::int64_t{1} << 40},
                                   {"quantization_config", Json::object()},
                                   {"n_head", 5},
                                   {"layer_norm_epsilon", 0.0}};
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.key);
    ScratchFolder scratch;
    copy_model(scratch / "m", [&](Json& config) { config.set(refusal.key, refusal.value); });
    std::string error = error_of([&] { open_quietly(scratch / "m"); });
    CHECK(contains(error, "config.json: "));
    CHECK((contains(error, refusal.key) || contains(error, "attention heads 5")));
  }
  ScratchFolder scratch;
  copy_model(scratch / "m",
             [](Json& config) { config.set("activation_function", "gelu_pytorch_tanh").set("n_inner", Json()); });
  CHECK(open_quietly(scratch / "m").config().ffn_hidden_size == 256);
  copy_model(scratch / "n", [](Json& config) { config.set("n_layer", 3); });
  CHECK(contains(error_of([&] { open_quietly(scratch / "n"); }), "'transformer.h.2.ln_1.weight' is missing"));
  copy_model(scratch / "p", [](Json& config) { config.set("n_positions", 65); });
  CHECK(contains(error_of([&] { open_quietly(scratch / "p"); }), "tensor 'transformer.wpe.weight' has shape ("));
}

TEST_CASE("hf: attention upcast to fp32 is accepted, and kept in config.json") {
  ScratchFolder scratch;
  copy_model(scratch / "m", [](Json& config) { config.set("reorder_and_upcast_attn", true); });
  ModelSource source = open_quietly(golden("a")), upcast = open_quietly(scratch / "m");
  TestParams a(source.config(), false), b(source.config(), false);
  source.load_values(a.params), upcast.load_values(b.params);
  CHECK(same_tensors(a.params, b.params));
  fs::create_directories(scratch / "n");
  write_hf_folder(upcast, scratch / "n",
                  {.dtype = StoredDType::f32, .max_shard_bytes = 1u << 30, .end_of_text_id = {}});
  CHECK(open_quietly(scratch / "n").hf_config().at("reorder_and_upcast_attn").as_bool());
}

TEST_CASE("hf: a file that shrinks within its last page is not read as zeros") {
  ScratchFolder scratch;
  copy_model(scratch / "m", [](Json&) {});
  const std::string weights = scratch / "m/model.safetensors";
  ModelSource source = open_quietly(scratch / "m");
  TestParams loaded(source.config(), false);
  source.load_values(loaded.params);
  fs::resize_file(weights, fs::file_size(weights) - 4);
  CHECK(contains(error_of([&] { source.load_values(loaded.params); }), "model.safetensors was truncated while"));
}

TEST_CASE("output folder: a folder to replace that changes during the conversion is left as it is") {
  ScratchFolder scratch;
  copy_model(scratch / "old", [](Json&) {});
  Console console = quiet_console();
  InterruptGuard guard("test");
  OutputFolder output({.path = scratch / "old", .replace = true, .source = golden("a")}, guard, console);
  write_text(output.staged() + "/config.json", "{}");
  write_text(scratch / "old/notes.txt", "mine");
  CHECK(contains(error_of([&] { output.commit(); }), "was changed during the conversion and now contains 'notes.txt'"));
  CHECK(read_file(scratch / "old/notes.txt") == "mine");
}

TEST_CASE("hf: a folder without a model is refused with the expected file names") {
  ScratchFolder scratch;
  std::string error = error_of([&] { open_quietly(scratch.path()); });
  for (const char* part : {"manifest.json", "config.json", "iter_*"}) CHECK(contains(error, part));
  CHECK(contains(error_of([&] { open_quietly(scratch / "none"); }), "no such file or folder"));
}

TEST_CASE("hf: exports a training checkpoint with the tokenizer's end-of-text id") {
  ScratchFolder scratch;
  TestParams model(tiny_config(2)), loaded(tiny_config(2), false);
  fill(model.params, 0.25f);
  SaveOptions options;
  options.add_files = [](const std::string& to) {
    write_file_atomic(to + "/vocab.json", "{\"a\": 0, \"<|endoftext|>\": 10}");
  };
  save_alone(SaveDirectory(scratch / "s"), tiny_config(2), model.params, state_at(5), options);
  ModelSource source = open_quietly(scratch / "s");
  CHECK(find_end_of_text_id(source.folder()) == 10);
  fs::create_directories(scratch / "hf");
  write_hf_folder(source, scratch / "hf",
                  {.dtype = {}, .max_shard_bytes = 1u << 30, .end_of_text_id = find_end_of_text_id(source.folder())});
  ModelSource written = open_quietly(scratch / "hf");
  written.load_values(loaded.params);
  CHECK(same_tensors(model.params, loaded.params));
  CHECK(written.config() == tiny_config(2));
  CHECK(written.hf_config().at("eos_token_id").as_int() == 10);
  CHECK(Json::read(scratch / "hf/generation_config.json").at("eos_token_id").as_int() == 10);
  CHECK(file_exists(scratch / "hf/vocab.json"));
  CHECK_FALSE(file_exists(scratch / "hf/manifest.json"));
}

TEST_CASE(
    "hf: a checkpoint's tokenizer gets the model's length, unless it has one, and config.json the run's dropout") {
  const ScratchFolder scratch;
  TestParams model(tiny_config(), false);
  TrainState state = state_at(1);
  state.extra.set("dropout", dropout_to_json({0.5, 0.25, 0.125}));
  state.extra.set("hf_config", Json::read("golden/llama_model/llama/config.json"));
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a": 1})", R"({"a": 1, "model_max_length": 5})"},
      {R"({"model_max_length": 3})", R"({"model_max_length": 3})"},
      {R"({"model_max_length": 999999999999999999999999999999})", R"({"model_max_length": 5})"},
      {R"({"model_max_length": 1e18})", R"({"model_max_length": 5})"},
      {R"({"model_max_length": 9e17})", R"({"model_max_length": 9e17})"},
      {R"({"model_max_length": null})", R"({"model_max_length": 5})"},
      {"[1]", "[1]"}};
  for (const auto& [before, after] : cases) {
    CAPTURE(before);
    fs::remove_all(scratch / "s");
    fs::remove_all(scratch / "hf");
    make_directories(scratch / "hf");
    const std::string folder = save_alone(
        SaveDirectory(scratch / "s"), tiny_config(), model.params, state,
        {.add_files = [&, text = before](const std::string& to) { write_text(to + "/tokenizer_config.json", text); }});
    write_hf_folder(open_quietly(folder), scratch / "hf", {});
    CHECK(Json::read(scratch / "hf/tokenizer_config.json") == Json::parse(after));
    const Json config = Json::read(scratch / "hf/config.json");
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, Json>>{{"model_type", "gpt2"},
                                                                                        {"resid_pdrop", 0.5},
                                                                                        {"attn_pdrop", 0.25},
                                                                                        {"embd_pdrop", 0.125},
                                                                                        {"bos_token_id", Json()},
                                                                                        {"eos_token_id", Json()},
                                                                                        {"dtype", "float32"}})
      CHECK(config.at(key) == value);
    CHECK(config.find("rms_norm_eps") == nullptr);  // the record's family does not have this architecture
    CHECK(Json::read(scratch / "hf/generation_config.json") == Json::object({{"_from_model_config", true}}));
  }
}
