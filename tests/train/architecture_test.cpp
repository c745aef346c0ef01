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

TEST_CASE("presets: the length, vocabulary, dropout and configuration of each, and the flags that it sets") {
  std::string table;
  for (const Preset& preset : presets()) {
    ArchitectureOptions given;
    apply_preset(preset, given);
    const GptConfig c = resolve(given, {}, preset.vocab_size).config;
    table += cat(preset.name, " ", preset.seq_length, " ", preset.vocab_size, " ", preset.dropout, " C", c.hidden_size,
                 " L", c.num_layers, " H", c.num_heads, "/", c.num_query_groups, "x", c.head_dim, " F",
                 c.ffn_hidden_size, " P", c.max_positions, " e", c.norm_eps, " r", c.rotary.base, "/", c.rotary.percent,
                 "/", c.rotary.factor, " ", given.preset_flags.size(), "\n");
  }
  CHECK(table ==
        "gpt2-124m 1024 50257 0.1 C768 L12 H12/12x64 F3072 P1024 e1e-05 r10000/1/1 6\n"
        "gpt2-345m 1024 50257 0.1 C1024 L24 H16/16x64 F4096 P1024 e1e-05 r10000/1/1 6\n"
        "gpt2-774m 1024 50257 0.1 C1280 L36 H20/20x64 F5120 P1024 e1e-05 r10000/1/1 6\n"
        "gpt2-1558m 1024 50257 0.1 C1600 L48 H25/25x64 F6400 P1024 e1e-05 r10000/1/1 6\n"
        "codeparrot-110m 1024 32768 0.1 C768 L12 H12/12x64 F3072 P1024 e1e-05 r10000/1/1 6\n"
        "gpt-1.3b 1024 50257 0.1 C2048 L24 H16/16x128 F8192 P1024 e1e-05 r10000/1/1 6\n"
        "gpt-2.7b 2048 50257 0.1 C2560 L32 H32/32x80 F10240 P2048 e1e-05 r10000/1/1 6\n"
        "gpt-3.7b 2048 50257 0.1 C2816 L36 H32/32x88 F11264 P2048 e1e-05 r10000/1/1 6\n"
        "llama-30m 512 50257 0 C384 L6 H6/2x64 F1024 P512 e1e-05 r10000/1/1 12\n"
        "llama-125m 2048 50257 0 C768 L12 H12/12x64 F2048 P2048 e1e-05 r10000/1/1 11\n"
        "llama3.2-1b 8192 128256 0 C2048 L16 H32/8x64 F8192 P131072 e1e-05 r500000/1/32 14\n"
        "qwen2.5-0.5b 4096 151936 0 C896 L24 H14/2x64 F4864 P32768 e1e-06 r1000000/1/1 14\n"
        "qwen3-0.6b 4096 151936 0 C1024 L28 H16/8x128 F3072 P40960 e1e-06 r1000000/1/1 15\n"
        "pythia-70m 2048 50304 0 C512 L6 H8/8x64 F2048 P2048 e1e-05 r10000/0.25/1 10\n"
        "pythia-160m 2048 50304 0 C768 L12 H12/12x64 F3072 P2048 e1e-05 r10000/0.25/1 10\n");
  ArchitectureOptions llama;
  apply_preset(find_preset("llama-30m"), llama);
  CHECK(join(llama.preset_flags, " ", [](const std::string& flag) { return flag; }) ==
        "--disable-bias-linear --ffn-hidden-size --group-query-attention --hidden-size --max-position-embeddings "
        "--normalization --num-attention-heads --num-layers --num-query-groups --position-embedding-type --rotary-base "
        "--swiglu");
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
  CHECK(changes("llama3.2-1b", [](Options& options) { options.rope_scaling = true; }).empty());
  CHECK(changes("llama-30m", [](Options& options) { options.rotary_interpolation = 2; }).empty());
  ArchitectureOptions learned;
  learned.position_embedding_type = "learned_absolute";
  apply_preset(find_preset("llama-30m"), learned);
  CHECK_FALSE(learned.rotary_base);
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
  ArchitectureOptions given;
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("--model llama-30m: ") == 0);
  CHECK(found[0].find("--rotary-base 10000 (the loaded model has 500000)") != std::string::npos);
  CHECK(found[0].find("--max-position-embeddings 512 (the loaded model has 4096)") != std::string::npos);
  CHECK(found[0].ends_with("; leave out --model"));
  const auto problem_of = [&](const char* name, const GptConfig& from, const char* more = "") {
    ArchitectureOptions by_preset = with_preset(name);
    if (*more != '\0') by_preset.preset_flags.insert(more);
    const std::vector<std::string> problems = resolve(by_preset, from).problems;
    return problems.empty() ? "" : join(problems, "\n");
  };
  CHECK(problem_of("llama-30m", loaded, "--seq-length") == found[0] + ", and choose a --seq-length");
  // A flag of several parts is listed once, and the scaling's factor only beside the scaling.
  loaded = same;
  loaded.activation = Activation::gelu_tanh;
  loaded.gated_mlp = false;
  CHECK(problem_of("llama-30m", loaded) ==
        "--model llama-30m: sets --swiglu (the loaded model has another activation); leave out --model");
  const GptConfig scaled = resolve(with_preset("llama3.2-1b")).config;
  loaded = scaled;
  loaded.rotary.factor = 16;
  CHECK(problem_of("llama3.2-1b", loaded) ==
        "--model llama3.2-1b: sets --rope-scaling-factor 32 (the loaded model has 16); leave out --model");
  loaded.rotary.scaling = RotaryOptions::Scaling::none;
  CHECK(problem_of("llama3.2-1b", loaded) ==
        "--model llama3.2-1b: sets --use-rope-scaling (the loaded model does not scale rotary frequencies as Llama "
        "3.1); leave out --model");
  given = {};
  given.rope_parameters = "{}";  // in place of the preset's base
  CHECK(resolve(with_preset("llama-30m", given)).problems.empty());
  loaded = same;
  loaded.rotary.base = 500000;
  loaded.max_positions = 4096;
  given = {};
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
