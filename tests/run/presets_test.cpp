// The models that --model names: their sizes and settings, and flags and loaded models beside them.
#include "run/presets.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "nn/model_params.h"
#include "nn/rotary.h"
#include "run/flops.h"
#include "tests/doc_table.h"
#include "tests/golden_lines.h"
#include "tests/run/resolved.h"

using namespace mtl;
using test::resolve;
using test::Resolved;
using test::small;

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

TEST_CASE("presets: docs/models.md lists all of them, in the table's order") {
  std::vector<std::string> documented;
  std::string stem;  // "gpt2", for "-345m"
  for (const auto& row : test::doc_table("../docs/models.md", "| `--model` |")) {
    for (const std::string& name : test::code_words(row.at(0))) {
      if (!name.starts_with("-")) stem = name.substr(0, name.rfind('-'));
      documented.push_back(name.starts_with("-") ? stem + name : name);
    }
  }
  CHECK(documented == texts_of(presets(), &Preset::name));
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
