// A model's configuration in a manifest: what is written, what older manifests mean, and what is refused.
#include "models/canonical.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"
#include "tests/gpt_of_size.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr GptSizes kSizes = {.vocab = 11, .layers = 3, .hidden = 16, .heads = 4, .positions = 5};

/// Returns the configuration of an object without some of its keys.
GptConfig config_without(const Json& json, std::initializer_list<std::string_view> keys) {
  Json out = Json::object();
  for (const auto& [key, value] : json.as_object()) {
    if (std::ranges::find(keys, key) == keys.end()) out.set(key, value);
  }
  return config_from_json(out);
}

}  // namespace

TEST_CASE("manifest config: exactly these keys are written, and read back") {
  const std::string sizes =
      R"("vocab_size": 11, "num_layers": 3, "hidden_size": 16, "num_attention_heads": 4, "num_query_groups": )";
  GptConfig windows = qwen_of_size(kSizes);
  windows.activation = Activation::squared_relu;
  windows.sliding_window = 4, windows.first_window_layer = 1, windows.norm_eps = 0.25, windows.init_std = 0;
  windows.rotary = {.base = 500,
                    .interleaved = true,
                    .scaling = RotaryOptions::Scaling::longrope,
                    .factor = 2,
                    .short_factors = {1, 2},
                    .long_factors = {3, 4},
                    .attention_factor = 1.5,
                    .original_positions = 3};
  GptConfig linear = neox_of_size(kSizes);
  linear.rotary = {.percent = 0.5, .scaling = RotaryOptions::Scaling::linear, .factor = 4};
  const std::pair<GptConfig, std::string> cases[] = {
      {gpt_of_size(kSizes), R"(4, "kv_channels": 4, "ffn_hidden_size": 64, "max_position_embeddings": 5, )"
                            R"("normalization": "layernorm", "activation": "gelu_tanh", )"
                            R"("position_embedding": "learned", "linear_bias": true, "tied_embeddings": true, )"
                            R"("norm_epsilon": 1e-05, "init_method_std": 0.02)"},
      {linear, R"(4, "kv_channels": 4, "ffn_hidden_size": 64, "max_position_embeddings": 5, )"
               R"("normalization": "layernorm", "activation": "gelu_tanh", "position_embedding": "rotary", )"
               R"("linear_bias": true, "tied_embeddings": false, "norm_epsilon": 1e-05, "init_method_std": 0.02, )"
               R"("parallel_residual": true, "rotary": {"base": 10000.0, "percent": 0.5, "interleaved": false, )"
               R"("scaling": "linear", "factor": 4.0})"},
      {windows, R"(2, "kv_channels": 4, "ffn_hidden_size": 64, "max_position_embeddings": 5, )"
                R"("normalization": "rmsnorm", "activation": "squared_relu", "position_embedding": "rotary", )"
                R"("linear_bias": false, "tied_embeddings": true, "norm_epsilon": 0.25, "init_method_std": 0.0, )"
                R"("qkv_bias": true, "out_bias": false, "mlp_bias": false, "gated_mlp": true, "qk_norm": true, )"
                R"("sliding_window": 4, "first_window_layer": 1, "rotary": {"base": 500.0, "percent": 1.0, )"
                R"("interleaved": true, "scaling": "longrope", "factor": 2.0, "short_factors": [1.0, 2.0], )"
                R"("long_factors": [3.0, 4.0], "attention_factor": 1.5, "original_positions": 3})"}};
  for (const auto& [config, text] : cases) {
    CHECK(config_to_json(config).dump() == cat("{", sizes, text, "}"));
    CHECK(config_from_json(Json::parse(cat("{", sizes, text, "}"))) == config);
  }
}

TEST_CASE("manifest config: keys that older versions did not write have the values of their models") {
  const GptConfig llama = llama_of_size(kSizes);
  CHECK(config_without(config_to_json(llama), {"qkv_bias", "out_bias", "mlp_bias"}) == llama);
  GptConfig config = llama;
  config.gated_mlp = false;
  CHECK(config_without(config_to_json(llama), {"gated_mlp"}) == config);
  config = llama;
  config.sliding_window = 4, config.first_window_layer = 1;
  const Json windows = config_to_json(config);
  CHECK(config_without(windows, {"sliding_window", "first_window_layer"}) == llama);
  config.first_window_layer = 0;
  CHECK(config_without(windows, {"first_window_layer"}) == config);
}

TEST_CASE("manifest config: values outside their limits are refused, all in one message") {
  const Json good = config_to_json(llama_of_size(kSizes));
  const auto problem = [&](const char* key, const Json& value) {
    return error_of([&] { config_from_json(Json(good).set(key, value)); }, Exit::bad_data);
  };
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"vocab_size", 0},
                                                           {"max_position_embeddings", kMaxDimension + 1},
                                                           {"norm_epsilon", 0},
                                                           {"norm_epsilon", 1},
                                                           {"init_method_std", -0.01},
                                                           {"init_method_std", 1000}})
    CHECK(contains(problem(key, value), cat("config: ", key, " is ", value.dump())));
  CHECK(problem("init_method_std", 999.5).empty());
  CHECK(problem("vocab_size", kMaxDimension).empty());
  CHECK(contains(problem("num_query_groups", 3), "config: "));  // does not divide the heads
  CHECK(contains(problem("activation", "mish"), "activation is 'mish', which this version of mtl does not know"));
  const std::string both =
      error_of([&] { config_from_json(Json(good).set("hidden_size", -1).set("norm_epsilon", 2)); });
  CHECK(contains(both, "hidden_size is -1"));
  CHECK(contains(both, "; norm_epsilon is 2"));
}

TEST_CASE("canonical: the kinds of tensors are the weights, and all states of a rule that has one") {
  using Kinds = std::vector<std::string>;
  CHECK(tensor_kinds([](const std::string&) { return false; }) == Kinds{"param"});
  CHECK(tensor_kinds([](const std::string& kind) { return kind == "exp_avg_sq"; }) ==
        Kinds{"param", "exp_avg", "exp_avg_sq"});
}
