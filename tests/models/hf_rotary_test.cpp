// Scaled rotary frequencies: from config.json to frequencies and back, compared with transformers.
#include <doctest/doctest.h>

#include <cmath>

#include "models/canonical.h"
#include "models/hf_config.h"
#include "models/hf_rotary.h"
#include "models/hf_values.h"
#include "nn/rotary.h"
#include "tests/error_of.h"
#include "tests/golden_lines.h"
#include "tests/gpt_of_size.h"
#include "tests/relative_error.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr const char* kScaledModels[] = {"yarn",     "yarn_mscale",   "yarn_factor",
                                         "longrope", "dynamic_above", "dynamic_below"};

/// Returns max |f - expected| / expected.
double error_of_frequencies(const RotaryFrequencies& frequencies, const Json& expected) {
  const Json::Array& values = expected.as_array();
  REQUIRE(frequencies.pairs == std::ssize(values));
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = larger_or_nan(worst, std::abs(frequencies.values[i] / values[i].as_number() - 1));
  return worst;
}

/// Returns the problems of --rope-parameters for a Llama with 64 positions, one per line.
std::string problems_of(const std::string& parameters) {
  GptConfig config;
  config.head_dim = 4;
  config.max_positions = 64;
  std::vector<std::string> problems;
  rotary_from_hf(Json::parse(parameters), config, problems);
  return join(problems, "\n");
}

}  // namespace

TEST_CASE("hf rotary: the golden models' frequencies and attention factors equal transformers' float64") {
  for (const std::string model : kScaledModels) {
    CAPTURE(model);
    const std::string folder = cat("golden/rotary_model/", model);
    const Json golden = Json::read(folder + "/rope.json");
    for (const char* file : {"/config.json", "/config_old.json"}) {
      const GptConfig config = gpt_config_from_hf(Json::read(folder + file));
      const RotaryFrequencies frequencies = rotary_frequencies(config, golden.at("length").as_int());
      const Json& expected = golden.at("all");
      CHECK(error_of_frequencies(frequencies, expected.at("inv_freq")) < 1e-12);
      CHECK(std::abs(frequencies.scale / expected.at("scale").as_number() - 1) < 1e-12);
    }
  }
}

TEST_CASE("hf rotary: scaled frequencies and attention factors equal transformers', written and read back too") {
  std::map<std::string, int> cases;
  for (const Json& golden : golden_lines("golden/rotary_frequencies/cases.jsonl")) {
    const Json& rope = golden.at("config").at("rope_parameters");
    // Only GPT-NeoX rotates a part of each head. It has no head_dim.
    const bool is_partial = rope.number_or("partial_rotary_factor", 1) != 1;
    Json json = Json::object({{"model_type", is_partial ? "gpt_neox" : "llama"}, {"intermediate_size", 8}});
    for (const auto& [key, value] : golden.at("config").as_object()) {
      if (!is_partial || key != "head_dim") json.set(key, value);
    }
    CAPTURE(json.dump());
    ++cases[rope.at("rope_type").as_string()];
    const GptConfig config = gpt_config_from_hf(json);
    const RotaryFrequencies frequencies = rotary_frequencies(config, golden.at("length").as_int());
    CHECK(error_of_frequencies(frequencies, golden.at("inv_freq")) < 2e-6);
    CHECK(std::abs(frequencies.scale / golden.at("attention_factor").as_number() - 1) < 1e-12);
    CHECK(gpt_config_from_hf(hf_config_for(hf_family_of(json), config)) == config);
    CHECK(config_from_json(Json::parse(config_to_json(config).dump())) == config);
  }
  CHECK(cases["llama3"] == 32);
  CHECK(cases["linear"] == 12);
  CHECK(cases["yarn"] == 42);
  CHECK(cases["longrope"] == 16);
  CHECK(cases["dynamic"] == 16);
}

TEST_CASE("hf rotary: keys of rope_parameters that are absent or null have transformers' values") {
  Json json = Json::read("golden/rotary_model/yarn/config.json");  // 256 positions, 16 original ones
  const auto with = [&](const char* key, Json value) {
    Json rope = json.at("rope_parameters");
    return gpt_config_from_hf(Json(json).set("rope_parameters", rope.set(key, std::move(value)))).rotary;
  };
  const RotaryOptions plain = gpt_config_from_hf(json).rotary;
  for (const char* key : {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) {
    CAPTURE(key);
    CHECK(with(key, Json()) == plain);
  }
  CHECK(with("beta_fast", 0) == plain);
  CHECK(with("mscale", 0.5) == plain);  // acts with mscale_all_dim only
  CHECK(with("factor", Json()).factor == 16);
  CHECK(with("attention_factor", 2.0).attention_factor == 2);
  for (const char* key : {"factor", "attention_factor", "beta_fast", "original_max_position_embeddings", "truncate"}) {
    CAPTURE(key);
    CHECK(contains(error_of([&] { with(key, "8"); }, Exit::bad_data), cat("rope_parameters.", key, " is \"8\"")));
  }
  json = Json::read("golden/rotary_model/longrope/config.json");
  CHECK(with("factor", Json()).factor == 8);
  CHECK(with("factor", Json()).attention_factor == longrope_attention_factor(8, 32));
  // Manifests of earlier versions have no factor of longrope.
  const GptConfig longrope = gpt_config_from_hf(json);
  CHECK(longrope.rotary.factor == 4);
  Json manifest = config_to_json(longrope), rotary = Json::object();
  for (const auto& [key, value] : manifest.at("rotary").as_object())
    if (key != "factor") rotary.set(key, value);
  CHECK(config_from_json(manifest.set("rotary", rotary)).rotary.factor == 8);
  CHECK(contains(error_of([&] { with("long_factor", 3); }, Exit::bad_data), "long_factor is 3; it must be a list"));
}

TEST_CASE("hf rotary: original_max_position_embeddings at the top level takes priority where transformers reads it") {
  constexpr const char* kKey = "original_max_position_embeddings";
  for (const char* name : {"yarn", "longrope", "llama3"}) {
    CAPTURE(name);
    const bool is_llama3 = std::string_view(name) == "llama3";
    Json json = Json::read(cat("golden/", is_llama3 ? "family_model/" : "rotary_model/", name, "/config.json"));
    const RotaryOptions inside = gpt_config_from_hf(json).rotary;
    Json rope = json.at("rope_parameters");
    json.set(kKey, rope.at(kKey));
    for (const int other : {0, 8}) {  // absent, or another value
      Json keys = Json::object();
      for (const auto& [key, value] : rope.as_object()) {
        if (key != kKey) keys.set(key, value);
      }
      if (other != 0) keys.set(kKey, other);
      CHECK(gpt_config_from_hf(json.set("rope_parameters", keys)).rotary == inside);
    }
    CHECK(contains(error_of([&] { gpt_config_from_hf(json.set(kKey, "8")); }, Exit::bad_data), cat(kKey, " is \"8\"")));
  }
  const Json dynamic = Json::read("golden/rotary_model/dynamic_above/config.json");
  CHECK(gpt_config_from_hf(Json(dynamic).set(kKey, 8)).rotary == gpt_config_from_hf(dynamic).rotary);
}

TEST_CASE("hf rotary: --rope-parameters refuse what has no effect, and keep the model's other values") {
  CHECK(problems_of(R"({"rope_type": "default", "rope_theta": 500})").empty());
  CHECK(problems_of(R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16})").empty());
  CHECK(problems_of(R"({"rope_type": "yarn", "factor": 4, "attention_factor": 1, "truncate": false,
                       "original_max_position_embeddings": 16})")
            .empty());
  CHECK(contains(problems_of(R"({"rope_type": "longrope", "short_factor": [1, "1"], "long_factor": [1, 1],
                                 "original_max_position_embeddings": 16})"),
                 "it must be a list of numbers"));
  CHECK(contains(problems_of(R"({"rope_type": "yarn", "factor": 4})"), "has no original_max_position_embeddings; add"));
  CHECK(contains(problems_of(R"({"rope_type": "linear"})"), "has no factor; add it"));
  CHECK(
      contains(problems_of(R"({"rope_type": "linear", "factor": 4, "beta_fast": 8})"), "has beta_fast, which has no"));
  CHECK(
      contains(problems_of(R"({"rope_type": "dynamic", "factor": 2, "low_freq_factor": 1})"), "has low_freq_factor,"));
  CHECK(contains(problems_of(R"({"factor": 2})"), "has factor, which has no effect"));
  CHECK(contains(problems_of(R"({"rope_type": "longrope", "short_factor": [1, 1],
                                 "original_max_position_embeddings": 16})"),
                 "has no long_factor"));
  CHECK(contains(problems_of(R"({"rope_type": "mrope"})"), "mtl supports only default, linear, llama3, yarn"));
  GptConfig config;
  config.rotary = {.base = 700, .percent = 0.5, .interleaved = true};
  std::vector<std::string> problems;
  const RotaryOptions scaled = rotary_from_hf(Json::parse(R"({"type": "linear", "factor": 4})"), config, problems);
  CHECK(problems.empty());
  CHECK(scaled ==
        RotaryOptions{
            .base = 700, .percent = 0.5, .interleaved = true, .scaling = RotaryOptions::Scaling::linear, .factor = 4});
}

TEST_CASE("hf rotary: exactly these keys are written for scaled positions and for windows") {
  using Scaling = RotaryOptions::Scaling;
  const GptConfig plain = llama_of_size({.vocab = 11, .layers = 3, .hidden = 16, .heads = 4, .positions = 64});
  const auto rope_of = [&](const RotaryOptions& rotary) {
    GptConfig config = plain;
    config.rotary = rotary;
    const Json json = hf_config_for(*find_hf_family("llama"), config);
    CHECK(json.at("rope_theta") == Json(rotary.base));
    const Json& scaling = json.at("rope_scaling");
    Json parameters = scaling.is_null() ? Json::object({{"rope_type", "default"}}) : scaling;
    CHECK(json.at("rope_parameters").dump() == parameters.set("rope_theta", rotary.base).dump());
    return scaling.dump();
  };
  CHECK(rope_of({.base = 500}) == "null");
  CHECK(rope_of({.scaling = Scaling::linear, .factor = 2}) == R"({"factor": 2.0, "rope_type": "linear"})");
  CHECK(rope_of({.scaling = Scaling::dynamic, .factor = 2}) == R"({"factor": 2.0, "rope_type": "dynamic"})");
  CHECK(rope_of({.scaling = Scaling::llama3,
                 .factor = 2,
                 .low_freq_factor = 3,
                 .high_freq_factor = 5,
                 .original_positions = 8}) == R"({"factor": 2.0, "high_freq_factor": 5.0, "low_freq_factor": 3.0, )"
                                              R"("original_max_position_embeddings": 8, "rope_type": "llama3"})");
  RotaryOptions yarn = {.scaling = Scaling::yarn,
                        .factor = 2,
                        .beta_fast = 30,
                        .beta_slow = 3,
                        .attention_factor = yarn_attention_factor(2),
                        .original_positions = 8};
  CHECK(rope_of(yarn) ==
        R"({"factor": 2.0, "beta_fast": 30.0, "beta_slow": 3.0, "original_max_position_embeddings": 8, )"
        R"("rope_type": "yarn"})");
  yarn.round_pairs = false, yarn.attention_factor = 1.5;
  CHECK(rope_of(yarn) ==
        R"({"factor": 2.0, "beta_fast": 30.0, "beta_slow": 3.0, "truncate": false, "attention_factor": 1.5, )"
        R"("original_max_position_embeddings": 8, "rope_type": "yarn"})");
  RotaryOptions longrope = {.scaling = Scaling::longrope,
                            .factor = 2,
                            .short_factors = {1, 2},
                            .long_factors = {3, 4},
                            .attention_factor = longrope_attention_factor(2, 8),
                            .original_positions = 8};
  CHECK(rope_of(longrope) == R"({"factor": 2.0, "short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0], )"
                             R"("original_max_position_embeddings": 8, "rope_type": "longrope"})");
  longrope.attention_factor = 1.5;
  CHECK(contains(rope_of(longrope), R"("attention_factor": 1.5)"));

  const auto window_of = [&](const char* family, std::int64_t window, std::int64_t first) {
    GptConfig config = plain;
    config.sliding_window = window, config.first_window_layer = first;
    const Json json = hf_config_for(*find_hf_family(family), config);
    std::string out;
    for (const char* key : {"sliding_window", "layer_types", "use_sliding_window", "max_window_layers"}) {
      if (const Json* value = json.find(key)) out += value->dump() + " ";
    }
    return out;
  };
  CHECK(window_of("llama", 4, 1).empty());
  CHECK(window_of("mistral", 4, 0) == "4 ");
  CHECK(window_of("mistral", 0, 0) == "null ");
  CHECK(window_of("ministral", 4, 1) == R"(4 ["full_attention", "sliding_attention", "sliding_attention"] )");
  CHECK(window_of("ministral", 0, 0) == R"(null ["full_attention", "full_attention", "full_attention"] )");
  CHECK(window_of("qwen3", 4, 2) == R"(4 ["full_attention", "full_attention", "sliding_attention"] true 2 )");
  CHECK(window_of("qwen3", 0, 0) == R"(null ["full_attention", "full_attention", "full_attention"] false 3 )");
}

TEST_CASE("hf rotary: a window's size and first layer have limits and defaults") {
  const auto read = [](const char* family, const char* keys) {
    GptConfig config;
    config.num_layers = 3;
    std::vector<std::string> problems;
    const Json json = Json::parse(keys);
    read_hf_window(HfValues(json, "", problems), find_hf_family(family)->window, config);
    return cat(config.sliding_window, " ", config.first_window_layer, " ", join(problems, "; "));
  };
  CHECK(read("mistral", "{}") == "4096 0 ");
  CHECK(read("mistral", R"({"sliding_window": 1})") == "1 0 ");
  CHECK(read("mistral", R"({"sliding_window": null})") == "0 0 ");
  CHECK(contains(read("mistral", R"({"sliding_window": 0})"), "sliding_window is 0; it must be at least 1"));
  CHECK(read("mistral", R"({"sliding_window": "x"})").find("at least 1") == std::string::npos);
  CHECK(read("qwen2", R"({"sliding_window": 8, "max_window_layers": 0})") == "0 0 ");
  CHECK(read("qwen2", R"({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 0})") == "8 0 ");
  CHECK(read("qwen2", R"({"sliding_window": 8, "use_sliding_window": true})") == "0 0 ");  // from layer 28
  CHECK(contains(read("qwen2", R"({"use_sliding_window": true, "max_window_layers": -1})"), "it must be at least 0"));
  CHECK(contains(read("ministral", R"({"layer_types": [1, 2, 3]})"), "mtl supports only a list of 3 types"));
  CHECK(read("llama", R"({"sliding_window": 8})") == "0 0 ");
}
