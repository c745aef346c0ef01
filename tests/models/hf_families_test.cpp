// Hugging Face folders for every family: reads what transformers wrote, and writes the same file.
#include <doctest/doctest.h>

#include "base/files.h"
#include "base/str.h"
#include "formats/safetensors.h"
#include "models/hf_config.h"
#include "models/hf_folder.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/param_index.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr const char* kFamilyModels[] = {
    "llama_model/llama",      "llama_model/mistral",    "llama_model/qwen2",
    "llama_model/neox",       "family_model/llama3",    "family_model/qwen3",
    "family_model/gpt2_relu", "family_model/gpt2_gelu", "family_model/neox_serial"};

/// Copies a golden model's weights and its config.json, after applying `change`. Returns the new folder.
std::string copy_model(
    const ScratchFolder& scratch, const std::string& model, const std::function<void(Json&)>& change = [](Json&) {}) {
  const std::string to = scratch / "model";
  fs::create_directories(to);
  fs::copy_file(cat("golden/", model, "/model.safetensors"), to + "/model.safetensors",
                fs::copy_options::overwrite_existing);
  Json config = Json::read(cat("golden/", model, "/config.json"));
  change(config);
  write_text(to + "/config.json", config.dump(2));
  return to;
}

/// Adds or replaces a tensor in a model's file. Removes the tensor if `values` is empty.
void change_tensor(const std::string& folder, const std::string& name, std::vector<std::uint64_t> shape,
                   std::span<const std::byte> values, StoredDType dtype = StoredDType::f16) {
  const std::string path = folder + "/model.safetensors", changed = folder + "/changed";
  {
    SafetensorsFile source(path);
    std::vector<StoredTensor> plan;
    for (const StoredTensor& tensor : source.tensors()) {
      if (tensor.name != name) plan.push_back(tensor);
    }
    OutputFile out(changed);
    if (!values.empty()) plan.push_back({.name = name, .dtype = dtype, .shape = std::move(shape)});
    SafetensorsWriter writer(out, plan);
    for (const StoredTensor& tensor : source.tensors()) {
      if (tensor.name != name) writer.write(source.data(tensor));
    }
    writer.write(values);
    writer.finish();
    out.close();
  }
  fs::rename(changed, path);
}

bool same_model(const ModelSource& a, const ModelSource& b) {
  if (!(a.config() == b.config())) return false;
  TestParams of_a(a.config(), false), of_b(b.config(), false);
  a.load_values(of_a.params), b.load_values(of_b.params);
  return same_tensors(of_a.params, of_b.params);
}

}  // namespace

TEST_CASE("hf families: a Llama's weights are where transformers has them, element by element") {
  ModelSource source = open_quietly("golden/llama_model/llama");
  const GptConfig& config = source.config();
  TestParams model(config, false);
  source.load_values(model.params);
  SafetensorsFile file("golden/llama_model/llama/model.safetensors");
  // Compares `count` elements of `mtl_name`, starting at `first`, with the stored tensor `name`, starting at `begin`.
  auto count_differences = [&](const std::string& mtl_name, std::int64_t first, const std::string& name,
                               std::int64_t begin, std::int64_t count) {
    const StoredTensor& stored = *file.find(name);
    std::vector<float> values(file.data(stored).size() / 2);
    to_float(stored.dtype, file.data(stored), values);
    const float* loaded = model.params.value(test::param_index(model.params, mtl_name)).data<float>();
    std::int64_t differences = 0;
    for (std::int64_t i = 0; i < count; ++i) differences += loaded[first + i] != values[begin + i];
    return differences;
  };
  const std::int64_t C = config.hidden_size, D = config.head_dim, R = config.num_heads / config.num_query_groups;
  const std::string hf = "model.layers.1.self_attn.", mtl_name = "layers.1.attention.qkv.weight";
  for (std::int64_t g = 0; g < config.num_query_groups; ++g) {
    const std::int64_t group = g * (R + 2) * D * C;  // (G, R + 2, D, C)
    CHECK(count_differences(mtl_name, group, hf + "q_proj.weight", g * R * D * C, R * D * C) == 0);
    CHECK(count_differences(mtl_name, group + R * D * C, hf + "k_proj.weight", g * D * C, D * C) == 0);
    CHECK(count_differences(mtl_name, group + (R + 1) * D * C, hf + "v_proj.weight", g * D * C, D * C) == 0);
  }
  const std::int64_t F = config.ffn_hidden_size;
  CHECK(count_differences("layers.0.mlp.up.weight", 0, "model.layers.0.mlp.gate_proj.weight", 0, F * C) == 0);
  CHECK(count_differences("layers.0.mlp.up.weight", F * C, "model.layers.0.mlp.up_proj.weight", 0, F * C) == 0);
  CHECK(count_differences("layers.0.mlp.down.weight", 0, "model.layers.0.mlp.down_proj.weight", 0, C * F) == 0);
  CHECK(count_differences("output.weight", 0, "lm_head.weight", 0, config.vocab_size * C) == 0);
}

TEST_CASE("hf families: writing a model in its dtype reproduces the file byte for byte") {
  for (const char* model : kFamilyModels) {
    CAPTURE(model);
    ScratchFolder scratch;
    const std::string golden = cat("golden/", model);
    write_hf_folder(open_quietly(golden), scratch.path(), {});
    CHECK(read_file(scratch / "model.safetensors") == read_file(golden + "/model.safetensors"));
    CHECK(Json::read(scratch / "config.json").dump() == Json::read(golden + "/config.json").dump());
    CHECK(read_file(scratch / "generation_config.json") == read_file(golden + "/generation_config.json"));
  }
}

TEST_CASE(
    "hf families: shards, conversion to another dtype and back, and the old spelling of config.json keep the model") {
  for (const char* model : kFamilyModels) {
    CAPTURE(model);
    ScratchFolder scratch;
    ModelSource source = open_quietly(cat("golden/", model));
    fs::create_directories(scratch / "wide");
    write_hf_folder(source, scratch / "wide",
                    {.dtype = StoredDType::f32, .max_shard_bytes = 50'000, .end_of_text_id = {}});
    CHECK(file_exists(scratch / "wide/model.safetensors.index.json"));
    ModelSource wide = open_quietly(scratch / "wide");
    CHECK(same_model(source, wide));
    fs::create_directories(scratch / "back");
    write_hf_folder(wide, scratch / "back",
                    {.dtype = StoredDType::f16, .max_shard_bytes = 1u << 30, .end_of_text_id = {}});
    CHECK(read_file(scratch / "back/model.safetensors") == read_file(cat("golden/", model, "/model.safetensors")));
  }
  for (const char* model : {"llama", "mistral", "qwen2", "neox"}) {
    CAPTURE(model);
    ScratchFolder scratch;
    const std::string folder = copy_model(scratch, cat("llama_model/", model));
    fs::copy_file(cat("golden/llama_model/", model, "/config_old.json"), folder + "/config.json",
                  fs::copy_options::overwrite_existing);
    ModelSource old = open_quietly(folder);
    CHECK(same_model(old, open_quietly(cat("golden/llama_model/", model))));
    fs::create_directories(scratch / "written");
    write_hf_folder(old, scratch / "written",
                    {.dtype = StoredDType::bf16, .max_shard_bytes = 1u << 30, .end_of_text_id = {}});
    const Json config = Json::read(scratch / "written/config.json");
    CHECK(config.at("torch_dtype").as_string() == "bfloat16");
    CHECK(gpt_config_from_hf(config) == old.config());
  }
}

TEST_CASE("hf families: a model of mtl is written as the family with its architecture") {
  for (const char* model : kFamilyModels) {
    CAPTURE(model);
    ScratchFolder scratch;
    GptConfig config = open_quietly(cat("golden/", model)).config();
    TestParams trained(config), loaded(config, false);
    fill(trained.params, 0.5f);
    save_alone(SaveDirectory(scratch / "s"), config, trained.params, state_at(3));
    fs::create_directories(scratch / "hf");
    write_hf_folder(open_quietly(scratch / "s"), scratch / "hf",
                    {.dtype = {}, .max_shard_bytes = 1u << 30, .end_of_text_id = 5});
    ModelSource written = open_quietly(scratch / "hf");
    CHECK(written.config() == config);
    CHECK(written.hf_config().at("eos_token_id").as_int() == 5);
    written.load_values(loaded.params);
    CHECK(same_tensors(trained.params, loaded.params));
  }
}

TEST_CASE("hf families: a model that fits no family is refused, and nothing is written") {
  ScratchFolder scratch;
  GptConfig config = tiny_config();
  config.gated_mlp = true;
  TestParams trained(config);
  fill(trained.params, 0.5f);
  save_alone(SaveDirectory(scratch / "s"), config, trained.params, state_at(3));
  fs::create_directories(scratch / "hf");
  const std::string error = error_of([&] { write_hf_folder(open_quietly(scratch / "s"), scratch / "hf", {}); });
  CHECK(contains(error,
                 "no family of Hugging Face models has this architecture; the closest, gpt2, does not have: "
                 "gated_mlp true"));
  CHECK(fs::is_empty(scratch / "hf"));
}

TEST_CASE("hf families: PyTorch's files hold the same model as safetensors") {
  for (const char* model : {"gpt2_gelu", "neox_serial"}) {
    CAPTURE(model);
    ModelSource pickled = open_quietly(cat("golden/family_model/", model, "_bin"));
    CHECK(same_model(pickled, open_quietly(cat("golden/family_model/", model))));
    pickled.verify();
    CHECK(contains(pickled.identity(), "pytorch_model"));
    ScratchFolder scratch;
    write_hf_folder(pickled, scratch.path(), {});
    CHECK(read_file(scratch / "model.safetensors") ==
          read_file(cat("golden/family_model/", model, "/model.safetensors")));
  }
}

TEST_CASE("hf families: a stored output layer must equal the token embedding if tied; constant buffers are ignored") {
  ScratchFolder scratch;
  const std::string folder = copy_model(scratch, "llama_model/qwen2");
  SafetensorsFile golden("golden/llama_model/qwen2/model.safetensors");
  const StoredTensor& embedding = *golden.find("model.embed_tokens.weight");
  std::vector<std::byte> values(golden.data(embedding).begin(), golden.data(embedding).end());
  change_tensor(folder, "lm_head.weight", embedding.shape, values);
  change_tensor(folder, "model.layers.0.self_attn.rotary_emb.inv_freq", {8}, std::span(values).first(16));
  CHECK(same_model(open_quietly(folder), open_quietly("golden/llama_model/qwen2")));
  change_tensor(folder, "lm_head.weight", {embedding.shape[1], embedding.shape[0]}, values);
  CHECK(contains(error_of([&] { open_quietly(folder); }), "tensor 'lm_head.weight' differs from the token embedding"));
  change_tensor(folder, "lm_head.weight", embedding.shape, values, StoredDType::bf16);
  CHECK(contains(error_of([&] { open_quietly(folder); }), "tensor 'lm_head.weight' differs from the token embedding"));
  values[100] ^= std::byte{1};
  change_tensor(folder, "lm_head.weight", embedding.shape, values);
  CHECK(contains(error_of([&] { open_quietly(folder); }), "tensor 'lm_head.weight' differs from the token embedding"));
}

TEST_CASE("hf families: a tensor missing, extra, of another shape or of two types is refused by name") {
  ScratchFolder scratch;
  auto error_after = [&](const std::string& model, const std::function<void(const std::string&)>& change) {
    const std::string folder = copy_model(scratch, model);
    change(folder);
    return error_of([&] { open_quietly(folder); }, Exit::bad_data);
  };
  const std::vector<std::byte> zeros(4096);
  auto with = [&](const std::string& name, std::vector<std::uint64_t> shape, std::size_t bytes) {
    return [&zeros, name, shape = std::move(shape), bytes](const std::string& folder) {
      change_tensor(folder, name, shape, std::span(zeros).first(bytes));
    };
  };
  CHECK(contains(error_after("llama_model/llama", with("lm_head.weight", {}, 0)), "'lm_head.weight' is missing"));
  CHECK(contains(error_after("llama_model/llama", with("model.layers.1.self_attn.k_proj.weight", {}, 0)),
                 "'model.layers.1.self_attn.k_proj.weight' is missing"));
  CHECK(contains(error_after("llama_model/llama", with("model.layers.0.self_attn.q_proj.bias", {64}, 128)),
                 "'model.layers.0.self_attn.q_proj.bias' is not part of a language model of type llama"));
  CHECK(contains(error_after("llama_model/qwen2", with("model.layers.0.self_attn.k_proj.bias", {8}, 16)),
                 "'model.layers.0.self_attn.k_proj.bias' has shape (8), but config.json describes ("));
  auto two_types = [&](const std::string& folder) {
    change_tensor(folder, "model.layers.1.self_attn.v_proj.weight", {16, 32}, std::span(zeros).first(1024),
                  StoredDType::bf16);
  };
  CHECK(contains(
      error_after("llama_model/qwen2", two_types),
      "'model.layers.1.self_attn.v_proj.weight' is stored as BF16, but other parts of the same parameter as F16"));
  CHECK(contains(error_after("family_model/qwen3", with("model.layers.2.self_attn.q_norm.weight", {}, 0)),
                 "'model.layers.2.self_attn.q_norm.weight' is missing"));
}

TEST_CASE("hf families: docs/models.md and the manual page of mtl-convert list them in the table's order") {
  std::vector<std::string> types = texts_of(hf_families(), &HfFamily::model_type), manual;
  bool is_inside = false;
  for (const std::string& line : split(read_file("../man/mtl-convert.1.scd"), '\n')) {
    if (line.empty()) is_inside = false;
    if (is_inside && starts_with(line, "|  ")) manual.push_back(line.substr(3));
    is_inside = is_inside || starts_with(line, "[[ *model_type*");
  }
  CHECK(manual == types);
  const std::string last = types.back(), page = replace_all(read_file("../docs/models.md"), "\n", " ");
  types.pop_back();
  CHECK(page.find(cat(" `model_type` ", join(types, ", "), " and ", last, ": ")) != std::string::npos);
}
