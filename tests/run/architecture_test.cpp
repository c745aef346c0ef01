// Architecture flags. Also compares FLOP and parameter counts with Megatron-LM's and transformers'.
#include "run/architecture.h"

#include <doctest/doctest.h>

#include "nn/model_params.h"
#include "nn/rotary.h"
#include "run/flops.h"
#include "run/presets.h"
#include "tests/golden_lines.h"
#include "tests/run/resolved.h"

using namespace mtl;
using test::resolve;
using test::Resolved;
using test::small;

namespace {

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
  given.squared_relu = true;  // and the contradiction is the only problem
  CHECK(resolve(given).problems.size() == 1);
  given.squared_relu = false;
  given.hidden_size.reset();
  CHECK(resolve(given).problems.size() == 1);
  given.hidden_size = 20;
  given.ffn_hidden_size = 53;
  CHECK(resolve(given).problems.empty());
  given = small();
  given.num_query_groups = 2;  // without --group-query-attention, which mtl-train reports
  CHECK(resolve(given).config.num_query_groups == 4);
  CHECK(resolve(given).problems.empty());
  given = small();
  given.group_query_attention = true;
  CHECK(resolve(given).config.num_query_groups == 1);
  given.window_size = "15,0";
  CHECK(resolve(given).config.sliding_window == 16);
  given.window_size = "(15, 0)";
  CHECK(resolve(given).config.sliding_window == 16);
  const GptConfig windowed = resolve(given).config;
  for (const char* wrong : {"15", "15,1", "-1,0", "a,0", "", "15,00)", "(15,00"}) {
    CAPTURE(wrong);
    given.window_size = wrong;
    CHECK(resolve(given).problems.size() == 1);
    CHECK(resolve(given).config.sliding_window == 0);
    CHECK(resolve(given, windowed).problems.size() == 1);
  }
  given.window_size = "0,0";
  CHECK(resolve(given).config.sliding_window == 1);
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
  const auto problems_of = [](const ArchitectureOptions& flags, const GptConfig& from) {
    CHECK(resolve(flags, from).config == from);
    std::string out;
    for (const std::string& problem : resolve(flags, from).problems) out += problem.substr(0, problem.find(": ")) + ";";
    return out;
  };
  GptConfig other = loaded;
  other.num_query_groups = 2;
  given = {};
  given.num_query_groups = given.num_attention_heads = 4;
  CHECK(problems_of(given, other) == "--num-query-groups 4;");
  other = loaded;
  other.bias = {true, false, false};
  given = {};
  given.disable_bias_linear = given.add_qkv_bias = true;
  CHECK(problems_of(given, other) == "");
  other.bias = {false, false, false};
  CHECK(problems_of(given, other) == "--add-qkv-bias;");
  given = {};
  given.rope_parameters = R"({"rope_type": "linear", "factor": 2})";
  CHECK(problems_of(given, loaded) == "--rope-parameters;");
  CHECK(resolve(given, loaded).problems[0].find("learned positions") != std::string::npos);
  ArchitectureOptions fresh = small();
  fresh.rope_parameters = given.rope_parameters;
  CHECK(resolve(fresh).config == resolve(small()).config);  // learned positions
  other.position_embedding = PositionEmbedding::rotary;
  given.rope_parameters = R"({"rope_type": "default", "partial_rotary_factor": 0.5})";
  CHECK(problems_of(given, other) == "--rope-parameters;");
  fresh.rope_parameters = given.rope_parameters;
  fresh.rotary_embeddings = true;
  CHECK(resolve(fresh).config.rotary.percent == 0.5);
  given = {};
  given.position_embedding_type = "learned_absolute";
  CHECK(problems_of(given, other) == "--position-embedding-type learned_absolute;");
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
  const std::vector<std::string> refused = resolve(given, learned).problems;
  REQUIRE(refused.size() == 2);
  CHECK(refused[1].find("learned positions, and nothing to derive more") != std::string::npos);
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
  CHECK(resolve(given, loaded).config == loaded);
  given.position_embedding_type.reset();
  REQUIRE(resolve(given, loaded).problems.size() == 1);
  CHECK(resolve(given, loaded).problems[0].find("the loaded model has learned positions") != std::string::npos);
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
  given.rotary_interleaved = true;
  ArchitectureOptions interleaved = small();
  interleaved.rotary_embeddings = interleaved.rotary_interleaved = true;
  CHECK(continued(given, resolve(interleaved).config) ==
        RotaryOptions{.interleaved = true, .scaling = Scaling::linear, .factor = 2});
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

TEST_CASE("every flag changes its part of a new model, agrees with that model, and contradicts the plain one") {
  struct Case {
    const char* flag;  // in the contradiction; "": the plain model may continue with it
    void (*give)(ArchitectureOptions&);
    void (*expect)(GptConfig&);
  };
  using Options = ArchitectureOptions;
  using Scaling = RotaryOptions::Scaling;
  const auto rotary = [](GptConfig& c) { c.position_embedding = PositionEmbedding::rotary; };
  const Case cases[] = {
      {"--num-layers 3", [](Options& o) { o.num_layers = 3; }, [](GptConfig& c) { c.num_layers = 3; }},
      {"--kv-channels 16", [](Options& o) { o.kv_channels = 16; }, [](GptConfig& c) { c.head_dim = 16; }},
      {"--ffn-hidden-size 200", [](Options& o) { o.ffn_hidden_size = 200; },
       [](GptConfig& c) { c.ffn_hidden_size = 200; }},
      {"--group-query-attention", [](Options& o) { o.group_query_attention = true; },
       [](GptConfig& c) { c.num_query_groups = 1; }},
      {"--num-query-groups 2", [](Options& o) { o.group_query_attention = true, o.num_query_groups = 2; },
       [](GptConfig& c) { c.num_query_groups = 2; }},
      {"--normalization RMSNorm", [](Options& o) { o.normalization = "RMSNorm"; },
       [](GptConfig& c) { c.norm = Norm::rmsnorm; }},
      {"--norm-epsilon 0.5", [](Options& o) { o.norm_epsilon = 0.5; }, [](GptConfig& c) { c.norm_eps = 0.5; }},
      {"", [](Options& o) { o.init_method_std = 0.5; }, [](GptConfig& c) { c.init_std = 0.5; }},
      {"--activation gelu_erf", [](Options& o) { o.activation = "gelu_erf"; },
       [](GptConfig& c) { c.activation = Activation::gelu_erf; }},
      {"--activation relu", [](Options& o) { o.activation = "relu"; },
       [](GptConfig& c) { c.activation = Activation::relu; }},
      {"--activation squared_relu", [](Options& o) { o.activation = "squared_relu"; },
       [](GptConfig& c) { c.activation = Activation::squared_relu; }},
      {"--activation silu", [](Options& o) { o.activation = "silu"; },
       [](GptConfig& c) { c.activation = Activation::silu; }},
      {"", [](Options& o) { o.activation = "gelu_tanh"; }, [](GptConfig&) {}},
      {"", [](Options& o) { o.openai_gelu = true; }, [](GptConfig&) {}},
      {"--squared-relu", [](Options& o) { o.squared_relu = true; },
       [](GptConfig& c) { c.activation = Activation::squared_relu; }},
      {"--no-bias-gelu-fusion", [](Options& o) { o.no_bias_gelu_fusion = true; },
       [](GptConfig& c) { c.activation = Activation::gelu_erf; }},
      {"--swiglu", [](Options& o) { o.swiglu = true; },
       [](GptConfig& c) { c.activation = Activation::silu, c.gated_mlp = true, c.ffn_hidden_size = 256; }},
      {"--qk-layernorm", [](Options& o) { o.qk_layernorm = true; }, [](GptConfig& c) { c.qk_norm = true; }},
      {"--window-size 7,0", [](Options& o) { o.window_size = "7,0"; }, [](GptConfig& c) { c.sliding_window = 8; }},
      {"--disable-bias-linear", [](Options& o) { o.disable_bias_linear = true; },
       [](GptConfig& c) {
         c.bias = {false, false, false};
       }},
      {"", [](Options& o) { o.add_qkv_bias = true; }, [](GptConfig&) {}},
      {"--untie-embeddings-and-output-weights", [](Options& o) { o.untie_embeddings = true; },
       [](GptConfig& c) { c.tied_embeddings = false; }},
      {"--parallel-residual", [](Options& o) { o.parallel_residual = true; },
       [](GptConfig& c) { c.parallel_residual = true; }},
      {"--use-rotary-position-embeddings", [](Options& o) { o.rotary_embeddings = true; }, rotary},
      {"--position-embedding-type rope", [](Options& o) { o.position_embedding_type = "rope"; }, rotary},
      {"", [](Options& o) { o.position_embedding_type = "learned_absolute"; }, [](GptConfig&) {}},
      {"--max-position-embeddings 256", [](Options& o) { o.max_position_embeddings = 256; },
       [](GptConfig& c) { c.max_positions = 256; }},
      {"--rotary-base 500", [](Options& o) { o.rotary_base = 500; }, [](GptConfig& c) { c.rotary.base = 500; }},
      {"--rotary-percent 0.5", [](Options& o) { o.rotary_percent = 0.5; },
       [](GptConfig& c) { c.rotary.percent = 0.5; }},
      {"--rotary-interleaved", [](Options& o) { o.rotary_interleaved = true; },
       [](GptConfig& c) { c.rotary.interleaved = true; }},
      {"--rotary-seq-len-interpolation-factor 3", [](Options& o) { o.rotary_interpolation = 3; },
       [](GptConfig& c) { c.rotary.scaling = Scaling::linear, c.rotary.factor = 3; }},
      {"--use-rope-scaling", [](Options& o) { o.rope_scaling = true, o.rope_scaling_factor = 3; },
       [](GptConfig& c) { c.rotary.scaling = Scaling::llama3, c.rotary.factor = 3; }},
  };
  const GptConfig plain = resolve(small()).config;
  for (const Case& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    ArchitectureOptions given = small();
    each.give(given);
    const Resolved found = resolve(given);
    CHECK(found.problems.empty());
    GptConfig expected = plain;
    each.expect(expected);
    CHECK(found.config == expected);
    const bool acts = expected.position_embedding == PositionEmbedding::rotary ||
                      (expected.rotary.base == plain.rotary.base && expected.rotary.scaling == plain.rotary.scaling);
    CHECK(resolve(given, expected).problems.empty() == acts);  // a loaded model with learned positions rotates nothing
    CHECK(resolve({}, expected).config == expected);
    ArchitectureOptions alone;
    each.give(alone);
    const Resolved other = resolve(alone, plain);
    CHECK(other.config == plain);
    if (*each.flag == '\0') {
      CHECK(other.problems.empty());
    } else {
      REQUIRE(other.problems.size() == 1);
      CHECK(other.problems[0].starts_with(cat(each.flag, ": ")));
      CHECK(other.problems[0].ends_with("; leave the flag out"));
    }
  }
}

TEST_CASE("a new model needs its sizes; flags that exclude each other, and values of another form are reported") {
  const auto flags_of = [](const ArchitectureOptions& given) {
    std::string out;
    for (const std::string& problem : resolve(given).problems) out += problem.substr(0, problem.find(": ")) + "; ";
    return out;
  };
  CHECK(flags_of({}) == "--num-layers; --hidden-size; --num-attention-heads; --max-position-embeddings; ");
  using Options = ArchitectureOptions;
  const std::pair<void (*)(Options&), const char*> cases[] = {
      {[](Options& o) { o.openai_gelu = o.squared_relu = true; }, "--squared-relu, --openai-gelu; "},
      {[](Options& o) { o.activation = "relu", o.swiglu = true; }, "--activation relu, --swiglu; "},
      {[](Options& o) { o.rotary_embeddings = true, o.position_embedding_type = "learned_absolute"; },
       "--use-rotary-position-embeddings; "},
      {[](Options& o) { o.rotary_embeddings = true, o.position_embedding_type = "rope"; }, ""},
      {[](Options& o) { o.yarn_round_pairs = o.yarn_no_round_pairs = true; },
       "--no-yarn-correction-range-round-to-int; "},
      {[](Options& o) { o.rope_scaling = true, o.position_embedding_type = "yarn"; },
       "--use-rope-scaling, --position-embedding-type yarn; "},
      {[](Options& o) { o.rotary_interpolation = 2, o.rope_parameters = "{}", o.rotary_embeddings = true; },
       "--rotary-seq-len-interpolation-factor 2, --rope-parameters; "},
      {[](Options& o) { o.rope_parameters = "[1]"; }, "--rope-parameters; "},
      {[](Options& o) { o.rope_parameters = "{"; }, "--rope-parameters; "},
      {[](Options& o) { o.rope_parameters = "{}", o.rotary_base = 5; }, "--rotary-base 5; "},
      {[](Options& o) { o.rope_parameters = "{}", o.rotary_percent = 0.5; }, "--rotary-percent 0.5; "},
      {[](Options& o) { o.window_size = "2147483647,0"; }, ""},
      {[](Options& o) { o.window_size = "2147483648,0"; }, "--window-size 2147483648,0; "},
      {[](Options& o) { o.window_size = "(3,0"; }, "--window-size (3,0; "},
      {[](Options& o) { o.window_size = "3,0,0"; }, "--window-size 3,0,0; "},
  };
  for (const auto& each : cases) {
    const std::ptrdiff_t row = &each - cases;
    CAPTURE(row);
    ArchitectureOptions given = small();
    each.first(given);
    CHECK(flags_of(given) == std::string(each.second));
  }
}

TEST_CASE("yarn's flags: the first one names the problem of a loaded model without yarn, and all of them act") {
  ArchitectureOptions given = small();
  given.rotary_embeddings = true;
  const GptConfig rotary = resolve(given).config;
  using Options = ArchitectureOptions;
  for (const auto& [flag, give] :
       {std::pair<const char*, void (*)(Options&)>{"--rotary-scaling-factor 2",
                                                   [](Options& o) { o.rotary_scaling_factor = 2; }},
        {"--mscale 2", [](Options& o) { o.mscale = 2; }},
        {"--mscale-all-dim 2", [](Options& o) { o.mscale_all_dim = 2; }},
        {"--yarn-beta-fast 2", [](Options& o) { o.yarn_beta_fast = 2; }},
        {"--yarn-beta-slow 2", [](Options& o) { o.yarn_beta_slow = 2; }},
        {"--yarn-original-max-position-embeddings 2", [](Options& o) { o.yarn_original_positions = 2; }},
        {"--yarn-correction-range-round-to-int", [](Options& o) { o.yarn_round_pairs = true; }},
        {"--no-yarn-correction-range-round-to-int", [](Options& o) { o.yarn_no_round_pairs = true; }}}) {
    CAPTURE(std::string(flag));
    ArchitectureOptions alone;
    give(alone);
    const std::vector<std::string> problems = resolve(alone, rotary).problems;
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].starts_with(cat(flag, ": needs --position-embedding-type yarn")));
  }
  given = small();
  given.position_embedding_type = "yarn";
  given.rotary_scaling_factor = 4;
  given.yarn_beta_fast = 20;
  given.yarn_beta_slow = 3;
  given.yarn_original_positions = 77;
  given.yarn_no_round_pairs = true;
  const RotaryOptions expected{.scaling = RotaryOptions::Scaling::yarn,
                               .factor = 4,
                               .beta_fast = 20,
                               .beta_slow = 3,
                               .round_pairs = false,
                               .attention_factor = yarn_attention_factor(4),
                               .original_positions = 77};
  const GptConfig yarn = resolve(given).config;
  CHECK(yarn.rotary == expected);
  CHECK(resolve({}, yarn).config == yarn);
  given = {};
  given.rotary_scaling_factor = 16;
  CHECK(resolve(given, yarn).config.rotary.attention_factor == yarn_attention_factor(16));
  given = {};
  given.yarn_round_pairs = true;
  CHECK(resolve(given, yarn).config.rotary.round_pairs);
  given = {};
  given.mscale = 2;
  CHECK(resolve(given, yarn).config.rotary.attention_factor == yarn_attention_factor(4, 2, 0));
  given = {};
  given.mscale_all_dim = 2;
  CHECK(resolve(given, yarn).config.rotary.attention_factor == yarn_attention_factor(4, 1, 2));
}
