// config.json for every family, in both spellings: reading, rejecting and writing.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "models/canonical.h"
#include "models/hf_config.h"
#include "models/hf_keys.h"
#include "models/hf_names.h"
#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

Json golden_config(const std::string& path) { return Json::read("golden/" + path + "/config.json"); }

/// Returns the error that lists every rejected key in a configuration, or "".
std::string refusal(const Json& config) {
  return error_of([&] { gpt_config_from_hf(config); }, Exit::bad_data);
}

constexpr const char* kModels[] = {"gpt2_model/a",
                                   "gpt2_model/b",
                                   "llama_model/llama",
                                   "llama_model/mistral",
                                   "llama_model/qwen2",
                                   "llama_model/neox",
                                   "family_model/llama3",
                                   "family_model/qwen3",
                                   "family_model/neox_serial",
                                   "family_model/gpt2_relu",
                                   "family_model/gpt2_gelu",
                                   "rotary_model/yarn",
                                   "rotary_model/yarn_mscale",
                                   "rotary_model/yarn_factor",
                                   "rotary_model/longrope",
                                   "rotary_model/dynamic_above"};

}  // namespace

TEST_CASE("hf config: Llama's keys set every field of the configuration") {
  const GptConfig config = gpt_config_from_hf(golden_config("llama_model/llama"));
  CHECK(config.vocab_size == 512);
  CHECK(config.num_layers == 2);
  CHECK(config.hidden_size == 64);
  CHECK(config.num_heads == 4);
  CHECK(config.num_query_groups == 2);
  CHECK(config.head_dim == 16);
  CHECK(config.ffn_hidden_size == 160);
  CHECK(config.max_positions == 64);
  CHECK(config.norm == Norm::rmsnorm);
  CHECK(config.norm_eps == 1e-5);
  CHECK(config.activation == Activation::silu);
  CHECK(config.gated_mlp);
  CHECK(config.position_embedding == PositionEmbedding::rotary);
  CHECK(config.rotary == RotaryOptions{});
  CHECK(config.bias == LinearBias{.qkv = false, .out = false, .mlp = false});
  CHECK_FALSE(config.tied_embeddings);
  CHECK_FALSE(config.qk_norm);
  CHECK(config.sliding_window == 0);
}

TEST_CASE("hf config: the keys of the other families set the fields that distinguish them") {
  const GptConfig mistral = gpt_config_from_hf(golden_config("llama_model/mistral"));
  CHECK(mistral.sliding_window == 8);
  CHECK(mistral.num_query_groups == 1);
  const GptConfig qwen2 = gpt_config_from_hf(golden_config("llama_model/qwen2"));
  CHECK(qwen2.bias == LinearBias{.qkv = true, .out = false, .mlp = false});
  CHECK(qwen2.tied_embeddings);
  CHECK(qwen2.rotary.base == 1e6);
  CHECK(qwen2.sliding_window == 0);
  const GptConfig neox = gpt_config_from_hf(golden_config("llama_model/neox"));
  CHECK(neox.parallel_residual);
  CHECK(neox.rotary.percent == 0.25);
  CHECK(neox.activation == Activation::gelu_erf);
  CHECK(neox.norm == Norm::layernorm);
  CHECK(neox.bias == LinearBias{});
  CHECK_FALSE(neox.gated_mlp);
  const GptConfig qwen3 = gpt_config_from_hf(golden_config("family_model/qwen3"));
  CHECK(qwen3.qk_norm);
  CHECK(qwen3.head_dim == 16);
  CHECK(qwen3.sliding_window == 7);
  CHECK(qwen3.first_window_layer == 1);
  CHECK(qwen3.bias == LinearBias{.qkv = false, .out = false, .mlp = false});
  const GptConfig llama3 = gpt_config_from_hf(golden_config("family_model/llama3"));
  CHECK(llama3.rotary == RotaryOptions{.base = 500000,
                                       .scaling = RotaryOptions::Scaling::llama3,
                                       .factor = 8,
                                       .low_freq_factor = 1,
                                       .high_freq_factor = 4,
                                       .original_positions = 16});
  CHECK(llama3.bias == LinearBias{});
  const GptConfig serial = gpt_config_from_hf(golden_config("family_model/neox_serial"));
  CHECK(serial.rotary.scaling == RotaryOptions::Scaling::linear);
  CHECK(serial.rotary.factor == 2);
  CHECK(serial.bias == LinearBias{.qkv = false, .out = false, .mlp = true});
  CHECK_FALSE(serial.parallel_residual);
  const GptConfig relu = gpt_config_from_hf(golden_config("family_model/gpt2_relu"));
  CHECK(relu.activation == Activation::relu);
  CHECK(relu.ffn_hidden_size == 56);
  CHECK_FALSE(relu.tied_embeddings);
}

TEST_CASE("hf config: the old spelling describes the same model") {
  for (const char* model : {"llama", "mistral", "qwen2", "neox"}) {
    CAPTURE(model);
    const std::string folder = cat("golden/llama_model/", model);
    const Json old = Json::read(folder + "/config_old.json");
    CHECK(old.find("rope_parameters") == nullptr);
    CHECK(gpt_config_from_hf(old) == gpt_config_from_hf(Json::read(folder + "/config.json")));
  }
  Json old = golden_config("family_model/llama3");
  Json scaling = Json::object({{"type", "llama3"}});
  for (const auto& [key, value] : old.at("rope_parameters").as_object()) {
    if (key != "rope_theta" && key != "rope_type") scaling.set(key, value);
  }
  old.set("rope_scaling", scaling).set("rope_theta", 500000.0);
  for (const Json& nothing : {Json(), Json::object()})
    CHECK(gpt_config_from_hf(old.set("rope_parameters", nothing)) ==
          gpt_config_from_hf(golden_config("family_model/llama3")));
}

TEST_CASE("hf config: a configuration is written as the family that it was read from, and reads back") {
  for (const char* model : kModels) {
    CAPTURE(model);
    const Json json = golden_config(model);
    const GptConfig config = gpt_config_from_hf(json);
    CHECK(has_architecture(hf_family_of(json), config));
    CHECK(gpt_config_from_hf(hf_config_for(hf_family_of(json), config)) == config);
    CHECK(std::string(hf_family_for(config).model_type) == json.at("model_type").as_string());
  }
}

TEST_CASE("hf config: absent keys have transformers' defaults") {
  // The values in a manifest. The keys are those in canonical_test.cpp.
  const std::string llama = R"("rmsnorm", "silu", "rotary", false, false, 1e-06, 0.02, )",
                    rotary = R"({"base": 10000.0, "percent": 1.0, "interleaved": false})";
  const std::pair<const char*, std::string> families[] = {
      {"gpt2",
       R"(50257, 12, 768, 12, 12, 64, 3072, 1024, "layernorm", "gelu_tanh", "learned", true, true, 1e-05, 0.02)"},
      {"llama", cat("32000, 32, 4096, 32, 32, 128, 11008, 2048, ", llama, "false, false, false, true, ", rotary)},
      {"mistral",
       cat("32000, 32, 4096, 32, 8, 128, 14336, 131072, ", llama, "false, false, false, true, 4096, 0, ", rotary)},
      {"ministral",
       cat("32000, 32, 4096, 32, 8, 128, 14336, 131072, ", llama, "false, false, false, true, 4096, 0, ", rotary)},
      {"qwen2", cat("151936, 32, 4096, 32, 32, 128, 22016, 32768, ", llama, "true, false, false, true, ", rotary)},
      {"qwen3",
       cat("151936, 32, 4096, 32, 32, 128, 22016, 32768, ", llama, "false, false, false, true, true, ", rotary)},
      {"gpt_neox",
       R"(50432, 44, 6144, 64, 64, 96, 24576, 2048, "layernorm", "gelu_erf", "rotary", true, false, 1e-05, )"
       R"(0.02, true, {"base": 10000.0, "percent": 0.25, "interleaved": false})"}};
  for (const auto& [model_type, expected] : families) {
    std::vector<std::string> values;
    const GptConfig config = gpt_config_from_hf(Json::object({{"model_type", model_type}}));
    const Json manifest = config_to_json(config);
    for (const auto& [key, value] : manifest.as_object()) values.push_back(value.dump());
    CHECK(join(values, ", ") == expected);
  }
  Json large = Json::object({{"model_type", "qwen2"}, {"use_sliding_window", true}, {"num_hidden_layers", 30}});
  CHECK(gpt_config_from_hf(large).first_window_layer == 28);
  CHECK(gpt_config_from_hf(large).sliding_window == 4096);
  Json qwen3 = golden_config("family_model/qwen3");
  qwen3.set("layer_types", Json()).set("max_window_layers", 2);
  CHECK(gpt_config_from_hf(qwen3).first_window_layer == 2);
  qwen3.set("max_window_layers", 3);
  CHECK(gpt_config_from_hf(qwen3).sliding_window == 0);  // no layer uses it
  Json mistral = golden_config("llama_model/mistral");
  CHECK(gpt_config_from_hf(mistral.set("sliding_window", Json())).sliding_window == 0);
}

TEST_CASE("hf config: keys that mtl would compute differently are refused by name") {
  struct Refusal {
    const char* model;
    const char* key;
    Json value;
    const char* message;
  };
  auto rope = [](const char* type) {
    return Json::object({{"rope_type", type}, {"rope_theta", 10000.0}, {"factor", 2.0}});
  };
  const Json alternating = Json::array().push("sliding_attention").push("full_attention").push("sliding_attention");
  const std::vector<Refusal> refusals = {
      {"llama_model/llama", "rope_parameters", rope("proportional"),
       "rope_parameters.rope_type is \"proportional\", but mtl supports only"},
      {"llama_model/llama", "rope_parameters", rope("longrope"), "rope_parameters has no short_factor"},
      {"llama_model/llama", "rope_parameters", rope("llama3"), "rope_parameters has no low_freq_factor"},
      {"llama_model/llama", "rope_scaling", rope("linear"), "rope_scaling and rope_parameters differ"},
      {"llama_model/llama", "rope_theta", 5000.0, "rope_theta is 5000.0, but rope_parameters.rope_theta is 10000"},
      {"llama_model/llama", "partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5, but mtl supports only 1"},
      {"llama_model/llama", "rope_parameters", Json::object({{"full_attention", rope("default")}}),
       "rope_parameters differs between layers"},
      {"llama_model/llama", "hidden_act", "gelu_10", "hidden_act is \"gelu_10\", but mtl supports only"},
      {"llama_model/llama", "quantization_config", Json::object(),
       "mtl does not support quantized models; use the folder from which it was quantized"},
      {"llama_model/llama", "is_causal", Json(),
       "is_causal is null; mtl does not support attention to later tokens; if the model"},
      {"llama_model/llama", "num_key_value_heads", 0, "num_key_value_heads is 0"},
      {"llama_model/llama", "model_type", "mixtral",
       "model_type is 'mixtral', but mtl reads only gpt2, llama, mistral"},
      {"llama_model/mistral", "sliding_window", -1, "sliding_window is -1"},
      {"family_model/qwen3", "layer_types", alternating, "layer_types is "},
      {"family_model/qwen3", "layer_types", Json::array().push("full_attention"), "layer_types is "},
      {"family_model/qwen3", "use_sliding_window", false, "layer_types has sliding_attention, but sliding_window"},
      {"llama_model/llama", "vocab_size", "many", "vocab_size is \"many\"; it must be a whole number"},
      {"llama_model/llama", "rope_parameters", "fast", "rope_parameters is \"fast\"; it must be an object"},
      {"llama_model/llama", "tie_word_embeddings", 1, "tie_word_embeddings is 1; it must be true or false"},
      {"llama_model/llama", "rms_norm_eps", 1, "rms_norm_eps is 1; it must be above 0 and below 1"},
      {"llama_model/llama", "layer_types", Json(std::string(90, 'x')), "layer_types is a value of 92 bytes; "},
      {"llama_model/llama", "layer_types", Json::array().push(std::string(90, 'x')),
       "layer_types is a list of 94 bytes"},
      {"family_model/gpt2_relu", "scale_attn_weights", false, "scale_attn_weights is false"}};
  for (const Refusal& entry : refusals) {
    CAPTURE(entry.message);
    Json config = golden_config(entry.model);
    config.set(entry.key, entry.value);
    const std::string error = refusal(config);
    CAPTURE(error);
    CHECK(contains(error, entry.message));
  }
  Json once = golden_config("llama_model/llama");
  once.set("vocab_size", "many").set("partial_rotary_factor", 0.5);
  CHECK(refusal(once.set("rope_scaling", once.at("rope_parameters"))) ==
        "vocab_size is \"many\"; it must be a whole number; partial_rotary_factor is 0.5, but mtl supports only 1 for "
        "models of this type");
  Json layers = golden_config("family_model/qwen3");
  CHECK(
      contains(refusal(layers.set("layer_types", Json()).set("max_window_layers", -1)), "max_window_layers is -1; it"));
  Json several = golden_config("llama_model/llama");
  several.set("hidden_act", "mish").set("quantization_config", Json::object()).set("rope_parameters", rope("axial"));
  for (const char* part : {"mish", "quantized", "axial"}) CHECK(contains(refusal(several), part));
}

TEST_CASE("hf config: each value in hf_keys.cpp that is not allowed is refused by key, in each family it concerns") {
  int refused = 0;
  for (const char* model : kModels) {
    const Json config = golden_config(model);
    for (const HfRefusedKey& rule : hf_refused_keys()) {
      CAPTURE(model);
      CAPTURE(rule.key);
      const bool is_concerned = includes_family(rule.families, config.at("model_type").as_string());
      const Json allowed = Json::parse(rule.allowed);
      for (const Json& value : {Json(), Json(true), Json(false), Json(7), Json::object({{"a", 1}})}) {
        const bool is_allowed = std::any_of(allowed.as_array().begin(), allowed.as_array().end(),
                                            [&](const Json& one) { return one.dump() == value.dump(); });
        const std::string error = refusal(Json(config).set(rule.key, value));
        CAPTURE(error);
        if (!is_concerned && std::string_view(rule.key) == "head_dim") continue;  // a size in other families
        if (!is_concerned && std::string_view(rule.key) == "sliding_window") continue;
        CHECK(contains(error, cat(rule.key, " is ", value.dump())) == (is_concerned && !is_allowed));
        refused += is_concerned && !is_allowed ? 1 : 0;
      }
    }
  }
  CHECK(refused > 300);
}

TEST_CASE("hf config: a value that transformers rejects is refused by key, not replaced by a default") {
  struct Wrong {
    const char* model;
    const char* key;
    Json value;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Wrong> wrongs = {{"llama_model/llama", "rms_norm_eps", Json()},
                                     {"llama_model/llama", "rms_norm_eps", "1e-5"},
                                     {"llama_model/llama", "rms_norm_eps", nan},
                                     {"llama_model/llama", "rms_norm_eps", 0.0},
                                     {"llama_model/llama", "hidden_size", Json()},
                                     {"llama_model/llama", "hidden_size", -64},
                                     {"llama_model/llama", "hidden_size", 64.5},
                                     {"llama_model/llama", "intermediate_size", Json()},
                                     {"llama_model/llama", "hidden_act", Json()},
                                     {"llama_model/llama", "hidden_act", 3},
                                     {"llama_model/llama", "tie_word_embeddings", Json()},
                                     {"llama_model/llama", "attention_bias", "true"},
                                     {"llama_model/llama", "initializer_range", "small"},
                                     {"llama_model/llama", "layer_types", "full_attention"},
                                     {"llama_model/mistral", "sliding_window", "8"},
                                     {"llama_model/mistral", "sliding_window", 0},
                                     {"llama_model/qwen2", "use_sliding_window", 1},
                                     {"llama_model/neox", "use_parallel_residual", Json()},
                                     {"llama_model/neox", "rotary_pct", "all"},
                                     {"gpt2_model/a", "n_head", Json()},
                                     {"gpt2_model/a", "n_head", "4"},
                                     {"gpt2_model/a", "num_attention_heads", 1},
                                     {"gpt2_model/a", "n_inner", 0}};
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.key);
    Json config = golden_config(wrong.model);
    const std::string error = refusal(config.set(wrong.key, wrong.value));
    CAPTURE(error);
    CHECK(contains(error, cat(wrong.key, " is ", wrong.value.dump())));
  }
  for (const char* key : {"factor", "low_freq_factor", "original_max_position_embeddings", "rope_theta", "rope_type"}) {
    for (const Json& value : {Json(), Json("8"), Json(nan), Json(-8)}) {
      CAPTURE(key);
      Json config = golden_config("family_model/llama3");
      Json rope = config.at("rope_parameters");
      config.set("rope_parameters", rope.set(key, value));
      std::string error = refusal(config);
      if (error.empty()) error = join(gpt_config_from_hf(config).problems(), "; ");
      CAPTURE(error);
      CHECK_FALSE(error.empty());
    }
  }
}

TEST_CASE("hf config: GPT-2's sizes are read under the names that transformers gives all models") {
  const Json original = golden_config("gpt2_model/a");
  Json renamed = Json::object();
  for (const auto& [key, value] : original.as_object()) {
    renamed.set(key == "n_head"        ? "num_attention_heads"
                : key == "n_layer"     ? "num_hidden_layers"
                : key == "n_embd"      ? "hidden_size"
                : key == "n_positions" ? "max_position_embeddings"
                                       : key,
                value);
  }
  CHECK(renamed.find("n_head") == nullptr);
  CHECK(gpt_config_from_hf(renamed) == gpt_config_from_hf(original));
  renamed.set("n_head", original.at("n_head"));
  CHECK(gpt_config_from_hf(renamed) == gpt_config_from_hf(original));
  renamed.set("n_head", 1);
  CHECK(contains(refusal(renamed), "num_attention_heads is "));
}

TEST_CASE("hf config: mistral with layer_types is read as ministral, whose layers have a window or not") {
  Json mistral = golden_config("llama_model/mistral");
  const std::int64_t layers = gpt_config_from_hf(mistral).num_layers;
  REQUIRE(layers >= 2);
  auto types = [&](const auto& is_sliding) {
    Json out = Json::array();
    for (std::int64_t i = 0; i < layers; ++i) out.push(is_sliding(i) ? "sliding_attention" : "full_attention");
    return out;
  };
  const GptConfig everywhere = gpt_config_from_hf(mistral);
  CHECK(std::string(hf_family_of(mistral).model_type) == "mistral");
  mistral.set("layer_types", Json());
  CHECK(std::string(hf_family_of(mistral).model_type) == "ministral");
  CHECK(gpt_config_from_hf(mistral) == everywhere);
  mistral.set("layer_types", types([](std::int64_t) { return true; }));
  CHECK(gpt_config_from_hf(mistral) == everywhere);
  mistral.set("layer_types", types([](std::int64_t) { return false; }));
  CHECK(gpt_config_from_hf(mistral).sliding_window == 0);
  mistral.set("layer_types", types([](std::int64_t i) { return i > 0; }));
  const GptConfig later = gpt_config_from_hf(mistral);
  CHECK(later.sliding_window == everywhere.sliding_window);
  CHECK(later.first_window_layer == 1);
  CHECK(std::string(hf_family_for(later).model_type) == "ministral");
  CHECK(gpt_config_from_hf(hf_config_for(hf_family_for(later), later)) == later);
  mistral.set("layer_types", types([](std::int64_t i) { return i == 0; }));
  CHECK(contains(refusal(mistral), "layer_types is "));
  mistral.set("layer_types", types([](std::int64_t) { return true; })).set("sliding_window", Json());
  CHECK(contains(refusal(mistral), "layer_types has sliding_attention"));
}

TEST_CASE("hf config: a model that fits no family is refused with what the closest family lacks") {
  GptConfig config = gpt_config_from_hf(golden_config("family_model/qwen3"));
  config.bias.mlp = true;
  std::string error = error_of([&] { hf_family_for(config); });
  CAPTURE(error);
  CHECK(contains(error, "no family of Hugging Face models has this architecture; the closest, qwen3, does not have: "));
  CHECK(contains(error, "mlp_bias true"));
  config = gpt_config_from_hf(golden_config("llama_model/llama"));
  config.rotary.interleaved = true;
  error = error_of([&] { hf_family_for(config); });
  CHECK(contains(error, "the closest, llama, does not have: rotary {"));  // the first of several
  CHECK(contains(error, "\"interleaved\": true"));
  config = gpt_config_from_hf(golden_config("llama_model/llama"));
  config.norm_eps = 2;
  CHECK(contains(error_of([&] { hf_family_for(config); }), "does not have: rms_norm_eps is 2"));
  config = gpt_config_from_hf(golden_config("llama_model/llama"));
  config.position_embedding = PositionEmbedding::learned;
  CHECK(contains(error_of([&] { hf_family_for(config); }), "no rotary"));
}

TEST_CASE("hf config: a description is read from a folder or a file, with its dropout") {
  const ScratchFolder scratch;
  const Json json = golden_config("gpt2_model/a").set("resid_pdrop", 0.25);
  write_text(scratch / "config.json", json.dump());
  for (const std::string& path : {scratch.path(), scratch / "config.json"}) {
    const HfDescription read = read_hf_description(path);
    CHECK(read.path == scratch / "config.json");
    CHECK(read.hf_config == json);
    CHECK(read.config == gpt_config_from_hf(json));
    CHECK(read.dropout == dropout_from_hf(json));
    CHECK(read.dropout.hidden == 0.25);
  }
  write_text(scratch / "config.json", Json(json).set("n_head", 7).dump());
  CHECK(contains(error_of([&] { read_hf_description(scratch.path()); }, Exit::bad_data), "/config.json: "));
}

TEST_CASE("hf names: qkv, gated mlp, norms, embedding and output layer have the family's names and shapes") {
  const HfFamily& llama = *find_hf_family("llama");
  const std::vector<HfTensor> qkv = hf_tensors_of({"layers.11.attention.qkv.weight", {2, 5, 16, 40}}, llama);
  REQUIRE(qkv.size() == 3);
  CHECK(qkv[0].name == "model.layers.11.self_attn.q_proj.weight");
  CHECK(qkv[0].shape == std::vector<std::int64_t>{96, 40});
  CHECK(qkv[1].name == "model.layers.11.self_attn.k_proj.weight");
  CHECK(qkv[1].shape == std::vector<std::int64_t>{32, 40});
  CHECK(qkv[2].piece.box.offset == std::vector<std::int64_t>{0, 4, 0, 0});
  CHECK(qkv[2].piece.file == 2);
  const std::vector<HfTensor> bias = hf_tensors_of({"layers.0.attention.qkv.bias", {2, 5, 16}}, llama);
  CHECK(bias[0].shape == std::vector<std::int64_t>{96});
  const std::vector<HfTensor> up = hf_tensors_of({"layers.0.mlp.up.weight", {2, 88, 40}}, llama);
  REQUIRE(up.size() == 2);
  CHECK(up[0].name == "model.layers.0.mlp.gate_proj.weight");
  CHECK(up[1].name == "model.layers.0.mlp.up_proj.weight");
  CHECK(up[1].shape == std::vector<std::int64_t>{88, 40});
  CHECK(hf_tensors_of({"layers.0.attention.q_norm.weight", {16}}, llama)[0].name ==
        "model.layers.0.self_attn.q_norm.weight");
  const HfFamily& neox = *find_hf_family("gpt_neox");
  CHECK(hf_tensors_of({"output.weight", {96, 32}}, neox)[0].name == "embed_out.weight");
  CHECK(hf_tensors_of({"embedding.tokens.weight", {96, 32}}, neox)[0].name == "gpt_neox.embed_in.weight");
  CHECK(is_hf_buffer("gpt_neox.layers.3.attention.bias", neox));
  CHECK_FALSE(is_hf_buffer("gpt_neox.layers.3.attention.dense.bias", neox));
  CHECK(full_hf_name("layers.0.mlp.down_proj.weight", llama) == "model.layers.0.mlp.down_proj.weight");
  CHECK(full_hf_name("lm_head.weight", llama) == "lm_head.weight");
}

TEST_CASE("hf config: dropout, with each family's keys and transformers' defaults") {
  const auto dropout_of = [](const char* model_type, std::initializer_list<std::pair<const char*, double>> keys) {
    Json config = Json::object({{"model_type", model_type}});
    for (const auto& [key, value] : keys) config.set(key, value);
    return dropout_from_hf(config);
  };
  CHECK(dropout_of("gpt2", {}) == ModelDropout{0.1, 0.1, 0.1});
  CHECK(dropout_of("gpt2", {{"resid_pdrop", 0}, {"attn_pdrop", 0.2}, {"embd_pdrop", 0.3}}) ==
        ModelDropout{0, 0.2, 0.3});
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    CHECK(dropout_of(family, {}) == ModelDropout{0, 0, 0});
    CHECK(dropout_of(family, {{"attention_dropout", 0.2}, {"hidden_dropout", 0.3}}) == ModelDropout{0, 0.2, 0});
  }
  CHECK(dropout_of("gpt_neox", {}) == ModelDropout{0, 0, 0});
  CHECK(dropout_of("gpt_neox", {{"attention_dropout", 0.2}, {"hidden_dropout", 0.3}}) == ModelDropout{0.3, 0.2, 0.3});
  CHECK(error_of(
            [&] {
              dropout_of("gpt2", {{"attn_pdrop", 1}});
            },
            Exit::bad_data)
            .find("attn_pdrop is 1") != std::string::npos);
  CHECK(dropout_from_json(Json::parse(dropout_to_json({0.3, 0.2, 0.1}).dump())) == ModelDropout{0.3, 0.2, 0.1});
}
