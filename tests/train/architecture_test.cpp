// Architecture flags and presets. Also compares FLOP and parameter counts with Megatron-LM's and transformers'.
#include "train/architecture.h"

#include <doctest/doctest.h>

#include "nn/model_params.h"
#include "nn/rotary.h"
#include "tests/golden_lines.h"
#include "train/flops.h"
#include "train/presets.h"

using namespace mtl;

namespace {

/// The configuration that the flags resolve to, and the problems reported.
struct Resolved {
  GptConfig config;
  std::vector<std::string> problems;
};

Resolved resolve(const ArchitectureOptions& given, std::optional<GptConfig> loaded = {}, std::int64_t vocab = 1000) {
  Resolved out;
  auto report = [&](std::string flag, std::string what) { out.problems.push_back(cat(flag, ": ", what)); };
  check_architecture(given, report);
  out.config = resolve_architecture(given, loaded, 512, report);
  if (!loaded) out.config.vocab_size = vocab;
  out.config.complete();
  return out;
}

ArchitectureOptions small() {
  ArchitectureOptions given;
  given.num_layers = 2;
  given.hidden_size = 96;
  given.num_attention_heads = 4;
  given.max_position_embeddings = 128;
  return given;
}

/// Returns mtl's options for the Megatron-LM arguments in a golden line.
ArchitectureOptions options_of(const Json& args) {
  ArchitectureOptions out;
  out.num_layers = args.at("num_layers").as_int();
  out.hidden_size = args.at("hidden_size").as_int();
  out.num_attention_heads = args.at("num_attention_heads").as_int();
  out.ffn_hidden_size = args.at("ffn_hidden_size").as_int();
  out.kv_channels = args.at("kv_channels").as_int();
  out.max_position_embeddings = args.at("seq_length").as_int();
  out.group_query_attention = args.at("group_query_attention").as_bool();
  if (out.group_query_attention) out.num_query_groups = args.at("num_query_groups").as_int();
  out.swiglu = args.at("swiglu").as_bool();
  out.untie_embeddings = args.at("untie_embeddings_and_output_weights").as_bool();
  out.normalization = args.at("normalization").as_string();
  out.position_embedding_type = args.at("position_embedding_type").as_string();
  out.disable_bias_linear = !args.at("add_bias_linear").as_bool();
  return out;
}

}  // namespace

TEST_CASE("FLOPs equal Megatron-LM's and parameter counts transformers', for every architecture") {
  int gated = 0, plain = 0;
  for (const Json& row : golden_lines("golden/flops/flops.jsonl")) {
    CAPTURE(row.at("name").as_string());
    const Json& args = row.at("args");
    Resolved resolved = resolve(options_of(args), {}, args.at("vocab_size").as_int());
    REQUIRE(resolved.problems.empty());
    REQUIRE(resolved.config.problems().empty());
    const std::int64_t padded = args.at("padded_vocab_size").as_int(), length = args.at("seq_length").as_int();
    const double flops = megatron_flops(resolved.config, padded, row.at("batch_size").as_int(), length);
    CHECK(flops == doctest::Approx(row.at("flops").as_number()).epsilon(1e-12));
    CHECK(parameter_count(resolved.config) == row.at("parameters_true_vocab").as_int());
    resolved.config.vocab_size = padded;
    CHECK(parameter_count(resolved.config) == row.at("parameters").as_int());
    ++(resolved.config.gated_mlp ? gated : plain);
  }
  CHECK(gated > 2);
  CHECK(plain > 2);
}

TEST_CASE("a preset builds the model that it is named after") {
  struct Case {
    const char* preset;
    const char* golden;
  };
  int compared = 0;
  for (const Case& named : {Case{"gpt2-124m", "gpt2 124M"},
                            {"345m", "gpt2 345M"},
                            {"1.3b", "gpt 1.3B"},
                            {"2.7b", "gpt 2.7B"},
                            {"3.7b", "gpt 3.7B"},
                            {"codeparrot-110m", "codeparrot 110M"}}) {
    CAPTURE(named.preset);
    for (const Json& row : golden_lines("golden/flops/flops.jsonl")) {
      if (row.at("name").as_string() != named.golden) continue;
      const Json& args = row.at("args");
      ArchitectureOptions given;
      given.max_position_embeddings = args.at("seq_length").as_int();
      apply_preset(find_preset(named.preset), given);
      Resolved resolved = resolve(given, {}, args.at("vocab_size").as_int());
      CHECK(resolved.problems.empty());
      CHECK(parameter_count(resolved.config) == row.at("parameters_true_vocab").as_int());
      const double flops = megatron_flops(resolved.config, args.at("padded_vocab_size").as_int(),
                                          row.at("batch_size").as_int(), *given.max_position_embeddings);
      CHECK(flops == doctest::Approx(row.at("flops").as_number()).epsilon(1e-12));
      ++compared;
    }
  }
  CHECK(compared == 6);
}

TEST_CASE("every preset can be built, at about the size in its name") {
  struct Case {
    const char* preset;
    std::int64_t parameters;  // published numbers
  };
  for (const Case& known : {Case{"gpt2-774m", 774030080},
                            {"gpt2-1558m", 1557611200},
                            {"llama3.2-1b", 1235814400},
                            {"qwen2.5-0.5b", 494032768},
                            {"qwen3-0.6b", 596049920},
                            {"pythia-70m", 70426624},
                            {"pythia-160m", 162322944}}) {
    CAPTURE(known.preset);
    ArchitectureOptions given;
    const Preset& preset = find_preset(known.preset);
    apply_preset(preset, given);
    CHECK(parameter_count(resolve(given, {}, preset.vocab_size).config) == known.parameters);
  }
  for (const Preset& preset : presets()) {
    CAPTURE(preset.name);
    ArchitectureOptions given;
    CHECK(apply_preset(preset, given).empty());
    Resolved resolved = resolve(given, {}, 50257);
    CHECK(resolved.problems.empty());
    CHECK(resolved.config.problems().empty());
    CHECK(resolved.config.max_positions >= preset.seq_length);
  }
  CHECK_THROWS(find_preset("gpt5"));
}

TEST_CASE("a flag next to a preset wins and is reported") {
  ArchitectureOptions given;
  given.num_layers = 3;
  given.hidden_size = 768;
  CHECK(apply_preset(find_preset("gpt2-124m"), given) == std::vector<std::string>{"--num-layers 3 in place of 12"});
  CHECK(given.num_layers == 3);
  CHECK(given.num_attention_heads == 12);

  const auto changes = [](const char* preset, auto set) {
    ArchitectureOptions options;
    set(options);
    const std::vector<std::string> found = apply_preset(find_preset(preset), options);
    CHECK(resolve(options, {}, 50257).problems.empty());
    return found;
  };
  using Changes = std::vector<std::string>;
  using Options = ArchitectureOptions;
  CHECK(changes("llama-30m", [](Options& options) { options.swiglu = true; }).empty());
  CHECK(changes("llama-30m", [](Options& options) { options.no_bias_gelu_fusion = true; }).empty());
  CHECK(changes("llama-30m", [](Options& options) { options.squared_relu = true; }) ==
        Changes{"--squared-relu in place of --swiglu"});
  CHECK(changes("llama-30m", [](Options& options) { options.activation = "gelu_erf"; }) ==
        Changes{"--activation gelu_erf in place of --swiglu"});
  CHECK(changes("pythia-70m", [](Options& options) { options.swiglu = true; }) ==
        Changes{"--swiglu in place of --activation gelu_erf"});
  CHECK(changes("gpt2-124m", [](Options& options) { options.swiglu = options.untie_embeddings = true; }) ==
        Changes{"--untie-embeddings-and-output-weights in addition", "--swiglu in addition"});
  CHECK(changes("gpt2-124m", [](Options& options) { options.rotary_embeddings = true; }) ==
        Changes{"--use-rotary-position-embeddings in addition"});
  CHECK(changes("llama-30m", [](Options& options) { options.rotary_embeddings = true; }).empty());
  CHECK(changes("gpt2-124m", [](Options& options) { options.ffn_hidden_size = 512; }) ==
        Changes{"--ffn-hidden-size 512 in addition"});
  CHECK(changes("llama3.2-1b", [](Options& options) { options.rotary_interpolation = 2; }) ==
        Changes{"--rotary-seq-len-interpolation-factor 2 in place of --use-rope-scaling"});
  CHECK(changes("llama3.2-1b", [](Options& options) { options.position_embedding_type = "learned_absolute"; }) ==
        Changes{"--position-embedding-type learned_absolute in place of rope"});
}

TEST_CASE("a preset beside a loaded model must agree with it, and flags win over both") {
  const auto with_preset = [](const char* name, ArchitectureOptions given = {}) {
    given.preset = name;
    apply_preset(find_preset(name), given);
    return given;
  };
  const ArchitectureOptions preset = with_preset("llama-30m");
  const GptConfig same = resolve(preset).config;
  CHECK(resolve(preset, same).problems.empty());
  CHECK(resolve(preset, same).config == same);

  GptConfig loaded = same;
  loaded.rotary.base = 500000;
  loaded.max_positions = 4096;
  const std::vector<std::string> found = resolve(preset, loaded).problems;
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("--model llama-30m: ") == 0);
  CHECK(found[0].find("--rotary-base 10000 (the loaded model has 500000)") != std::string::npos);
  CHECK(found[0].find("--max-position-embeddings 512 (the loaded model has 4096)") != std::string::npos);
  ArchitectureOptions given;
  given.rotary_base = 20000;
  given.max_position_embeddings = 8192;
  const Resolved changed = resolve(with_preset("llama-30m", given), loaded);
  CHECK(changed.problems.empty());
  CHECK(changed.config.rotary.base == 20000);
  CHECK(changed.config.max_positions == 8192);

  for (const Preset& other : presets()) {
    CAPTURE(other.name);
    const std::vector<std::string> problems = resolve(with_preset(other.name.c_str()), same).problems;
    CHECK(problems.size() == (other.name == "llama-30m" ? 0 : 1));
    const ArchitectureOptions own = with_preset(other.name.c_str());
    CHECK(resolve(own, resolve(own).config).problems.empty());
  }
  given = {};
  given.num_layers = 7;  // a flag that differs, and a preset that does
  CHECK(resolve(with_preset("llama-125m", given), same).problems.size() == 2);
}

TEST_CASE("flags choose kinds of layers by Megatron-LM's rules") {
  ArchitectureOptions given = small();
  CHECK(resolve(given).config.activation == Activation::gelu_tanh);
  given.no_bias_gelu_fusion = true;
  CHECK(resolve(given).config.activation == Activation::gelu_erf);
  given.openai_gelu = true;
  CHECK(resolve(given).config.activation == Activation::gelu_tanh);
  given = small();
  given.swiglu = true;
  CHECK(resolve(given).config.ffn_hidden_size == 256);  // 4 x 96 x 2 / 3, a multiple of 64
  given.hidden_size = 20;                               // 4 x 20 x 2 / 3 is 53
  CHECK(resolve(given).problems.size() == 1);
  given.ffn_hidden_size = 53;
  CHECK(resolve(given).problems.empty());
  given = small();
  given.group_query_attention = true;
  CHECK(resolve(given).config.num_query_groups == 1);
  given.window_size = "15,0";
  CHECK(resolve(given).config.sliding_window == 16);
  given.window_size = "(15, 0)";
  CHECK(resolve(given).config.sliding_window == 16);
  for (const char* wrong : {"15", "15,1", "-1,0", "a,0", ""}) {
    given.window_size = wrong;
    CHECK(resolve(given).problems.size() == 1);
  }
  given = small();
  given.disable_bias_linear = given.add_qkv_bias = true;
  CHECK(resolve(given).config.bias == LinearBias{true, false, false});
  given.rotary_embeddings = true;
  given.max_position_embeddings.reset();
  CHECK(resolve(given).config.max_positions == 512);
  given.rope_scaling = true;
  CHECK(resolve(given).config.rotary.factor == 8);
  given.rotary_interpolation = 2;
  CHECK(resolve(given).problems.size() == 1);
  given = small();
  given.swiglu = given.squared_relu = true;
  CHECK(resolve(given).problems.size() == 1);
}

TEST_CASE("flags must agree with a loaded model") {
  ArchitectureOptions given = small();
  given.swiglu = given.untie_embeddings = true;
  given.normalization = "RMSNorm";
  const GptConfig loaded = resolve(given).config;
  CHECK(resolve(given, loaded).problems.empty());
  CHECK(resolve({}, loaded).config == loaded);
  given.squared_relu = true;
  given.swiglu = false;
  given.normalization = "LayerNorm";
  given.qk_layernorm = true;
  given.num_layers = 3;
  CHECK(resolve(given, loaded).problems.size() == 4);
}

TEST_CASE("a loaded model with rotary positions continues with other positions and another base") {
  ArchitectureOptions given = small();
  given.rotary_embeddings = true;
  const GptConfig loaded = resolve(given).config;
  given.max_position_embeddings = *given.max_position_embeddings * 2;
  given.rotary_base = 500000;
  const Resolved longer = resolve(given, loaded);
  CHECK(longer.problems.empty());
  CHECK(longer.config.max_positions == *given.max_position_embeddings);
  CHECK(longer.config.rotary.base == 500000);
  given.rotary_percent = 0.5;
  CHECK(resolve(given, loaded).problems.size() == 1);
  given = small();
  const GptConfig learned = resolve(given).config;
  given.max_position_embeddings = *given.max_position_embeddings * 2;
  given.rotary_base = 10000;
  CHECK(resolve(given, learned).problems.size() == 2);
}

TEST_CASE("a contradiction with a loaded model is one problem") {
  const GptConfig loaded = resolve(small()).config;
  ArchitectureOptions given;
  given.swiglu = true;  // another activation, and a gate
  CHECK(resolve(given, loaded).problems.size() == 1);
  given = {};
  given.position_embedding_type = "yarn";  // and yarn's flags
  given.rotary_scaling_factor = given.yarn_beta_fast = 4;
  CHECK(resolve(given, loaded).problems.size() == 1);
  given.position_embedding_type.reset();
  CHECK(resolve(given, loaded).problems.size() == 1);
}

TEST_CASE("a new model's yarn has Megatron-LM's defaults, and a preset's scaling gives way to a given one") {
  ArchitectureOptions given = small();
  given.position_embedding_type = "yarn";
  const RotaryOptions plain = resolve(given).config.rotary;
  CHECK(plain == RotaryOptions{.scaling = RotaryOptions::Scaling::yarn, .original_positions = 4096});
  given.rotary_scaling_factor = 16;
  CHECK(resolve(given).config.rotary.attention_factor == yarn_attention_factor(16));
  given.mscale = 0.707;
  given.mscale_all_dim = 0.5;
  CHECK(resolve(given).config.rotary.attention_factor == yarn_attention_factor(16, 0.707, 0.5));
  given.yarn_no_round_pairs = true;
  CHECK_FALSE(resolve(given).config.rotary.round_pairs);
  given = {};
  given.preset = "llama3.2-1b";
  given.position_embedding_type = "yarn";
  const std::vector<std::string> changes = apply_preset(find_preset("llama3.2-1b"), given);
  CHECK(changes.size() == 2);  // the type in place of rope, and the scaling
  CHECK(resolve(given).problems.empty());
  CHECK(resolve(given).config.rotary.scaling == RotaryOptions::Scaling::yarn);
  CHECK(resolve(given).config.rotary.base == 500000);
}

TEST_CASE("a loaded model with rotary positions continues with another scaling, and keeps what no flag changes") {
  using Scaling = RotaryOptions::Scaling;
  ArchitectureOptions given = small();
  given.rotary_embeddings = true;
  given.rotary_base = 700;
  const GptConfig rotary = resolve(given).config;
  const auto continued = [&](const ArchitectureOptions& with, const GptConfig& from) {
    const Resolved out = resolve(with, from);
    CHECK(out.problems.empty());
    return out.config.rotary;
  };
  given = {};
  given.rotary_interpolation = 2;
  CHECK(continued(given, rotary) == RotaryOptions{.base = 700, .scaling = Scaling::linear, .factor = 2});
  given = {};
  given.rope_scaling = true;
  CHECK(continued(given, rotary) == RotaryOptions{.base = 700, .scaling = Scaling::llama3, .factor = 8});
  GptConfig scaled = rotary;
  scaled.rotary.scaling = Scaling::llama3;
  scaled.rotary.factor = 32;
  scaled.rotary.original_positions = 99;
  CHECK(continued(given, scaled) == scaled.rotary);
  given.rope_scaling_factor = 4;
  CHECK(continued(given, scaled).factor == 4);
  CHECK(continued(given, scaled).original_positions == 99);
  // Yarn starts from the loaded model's positions. A second start finds them in its own checkpoint.
  given = {};
  given.position_embedding_type = "yarn";
  given.rotary_scaling_factor = 4;
  given.max_position_embeddings = 512;
  GptConfig longer = resolve(given, scaled).config;
  CHECK(longer.rotary == RotaryOptions{.base = 700,
                                       .scaling = Scaling::yarn,
                                       .factor = 4,
                                       .attention_factor = yarn_attention_factor(4),
                                       .original_positions = 128});
  CHECK(resolve(given, longer).config == longer);
  longer.rotary.attention_factor = 1.5;
  given = {};
  given.yarn_beta_slow = 2;
  CHECK(continued(given, longer).attention_factor == 1.5);
  CHECK(continued(given, longer).beta_slow == 2);
  CHECK(resolve(given, rotary).problems.size() == 1);
  given = {};
  given.rope_parameters = R"({"rope_type": "default"})";
  CHECK(continued(given, longer) == rotary.rotary);
  given.rope_parameters = R"({"rope_type": "yarn", "factor": 2})";
  CHECK(resolve(given, longer).problems.size() == 1);
}
