#include "run/presets.h"

#include <algorithm>

#include "base/error.h"
#include "base/setting.h"

namespace mtl {

namespace {

/// Options that a given flag of the same part may exclude together.
enum class Part { layers, activation, positions, rotary, scaling };

struct Option {
  const char* flag;
  Setting setting;
  Part part = Part::layers;
};

/// Returns the options that presets set, in the order in which differences are listed.
std::vector<Option> options_of(ArchitectureOptions& model) {
  return {{"--num-layers", {&model.num_layers}},
          {"--hidden-size", {&model.hidden_size}},
          {"--num-attention-heads", {&model.num_attention_heads}},
          {"--num-query-groups", {&model.num_query_groups}},
          {"--kv-channels", {&model.kv_channels}},
          {"--ffn-hidden-size", {&model.ffn_hidden_size}},
          {"--max-position-embeddings", {&model.max_position_embeddings}},
          {"--normalization", {&model.normalization}},
          {"--norm-epsilon", {&model.norm_epsilon}},
          {"--group-query-attention", {&model.group_query_attention}},
          {"--qk-layernorm", {&model.qk_layernorm}},
          {"--disable-bias-linear", {&model.disable_bias_linear}},
          {"--add-qkv-bias", {&model.add_qkv_bias}},
          {"--untie-embeddings-and-output-weights", {&model.untie_embeddings}},
          {"--parallel-residual", {&model.parallel_residual}},
          {"--activation", {&model.activation}, Part::activation},
          {"--swiglu", {&model.swiglu}, Part::activation},
          {"--position-embedding-type", {&model.position_embedding_type}, Part::positions},
          {"--rotary-base", {&model.rotary_base}, Part::rotary},
          {"--rotary-percent", {&model.rotary_percent}, Part::rotary},
          {"--use-rope-scaling", {&model.rope_scaling}, Part::scaling},
          {"--rope-scaling-factor", {&model.rope_scaling_factor}, Part::scaling}};
}

ArchitectureOptions architecture_of(const Preset& preset) {
  ArchitectureOptions out;
  out.num_layers = preset.layers;
  out.hidden_size = preset.hidden_size;
  out.num_attention_heads = preset.heads;
  out.max_position_embeddings = preset.seq_length;
  const std::vector<Option> options = options_of(out);
  const std::vector<std::string> words = split(preset.flags, ' ');
  for (auto word = words.begin(); word != words.end(); ++word) {
    const auto option = std::ranges::find(options, *word, &Option::flag);
    require(option != options.end(), "no preset can set ", *word);
    option->setting.store({option->setting.kind() == "switch" ? "true" : *++word});
  }
  return out;
}

/// Fills in absent options, whose flags it adds to given.preset_flags, and lists given options that differ.
class Merger {
 public:
  Merger(ArchitectureOptions& preset, ArchitectureOptions& given)
      : from_(options_of(preset)), to_(options_of(given)), filled_(given.preset_flags) {}
  void merge(Part part) {
    for (std::size_t i = 0; i < to_.size(); ++i) {
      if (to_[i].part != part) continue;
      const std::string wanted = text_of(from_[i]), present = text_of(to_[i]);
      if (present.empty() && !wanted.empty()) {
        to_[i].setting.store(from_[i].setting.words());
        filled_.insert(to_[i].flag);
      } else if (present != wanted) {
        changes.push_back(cat(present, wanted.empty() ? " in addition" : " in place of " + from_[i].setting.text()));
      }
    }
  }
  std::vector<std::string> changes;

 private:
  /// Returns the flag with its value, or "" if the option is absent.
  static std::string text_of(const Option& option) {
    const std::string value = option.setting.text();
    if (option.setting.kind() == "switch") return value == "true" ? option.flag : "";
    return value.empty() ? "" : cat(option.flag, " ", value);
  }

  std::vector<Option> from_, to_;
  std::set<std::string>& filled_;
};

/// A given activation overrides the preset's, no matter which flags select the two.
void merge_activation(Merger& merger, const ArchitectureOptions& given, const ArchitectureOptions& preset) {
  const std::vector<std::string> chosen = activation_flags(given), preset_flags = activation_flags(preset);
  if (chosen.empty()) {
    merger.merge(Part::activation);
  } else if (chosen != preset_flags) {
    merger.changes.push_back(
        cat(join(chosen, ", "), preset_flags.empty() ? " in addition" : cat(" in place of ", preset_flags.front())));
  }
}

void merge_positions(Merger& merger, const ArchitectureOptions& given, const ArchitectureOptions& preset) {
  if (given.rotary_embeddings && !given.position_embedding_type) {
    if (preset.position_embedding_type != "rope")
      merger.changes.emplace_back("--use-rotary-position-embeddings in addition");
  } else {
    merger.merge(Part::positions);
  }
  if (given.position_embedding_type == "learned_absolute") return;
  merger.merge(Part::rotary);
  const std::vector<std::string> scalings = scaling_flags(given);
  if (!scalings.empty() && !given.rope_scaling && preset.rope_scaling) {
    merger.changes.push_back(cat(scalings.front(), " in place of --use-rope-scaling"));
    return;
  }
  merger.merge(Part::scaling);
}

}  // namespace

const std::vector<Preset>& presets() {
  // GPT-2 (Radford et al. 2019) and larger models with the same architecture.
  static const std::string kGpt = "--normalization LayerNorm --position-embedding-type learned_absolute";
  // Llama (Touvron et al. 2023): small models with tied embeddings.
  static const std::string kLlama =
      "--normalization RMSNorm --position-embedding-type rope --swiglu --disable-bias-linear ";
  // Qwen2.5 (Yang et al. 2024): query, key and value biases.
  static const std::string kQwen2 =
      kLlama + "--add-qkv-bias --norm-epsilon 1e-6 --rotary-base 1000000 --max-position-embeddings 32768 ";
  // Qwen3 (Yang et al. 2025): 128-element heads, normalized queries and keys.
  static const std::string kQwen3 =
      kLlama +
      "--kv-channels 128 --qk-layernorm --norm-epsilon 1e-6 --rotary-base 1000000 --max-position-embeddings 40960 ";
  // Pythia (Biderman et al. 2023), with the GPT-NeoX architecture.
  static const std::string kPythia =
      "--normalization LayerNorm --position-embedding-type rope --rotary-percent 0.25 --activation gelu_erf "
      "--parallel-residual --untie-embeddings-and-output-weights";
  // Name, layers, hidden size, heads, sequence length, vocabulary size, dropout, other flags.
  static const std::vector<Preset> kPresets = {
      {"gpt2-124m", 12, 768, 12, 1024, 50257, 0.1, kGpt},
      {"gpt2-345m", 24, 1024, 16, 1024, 50257, 0.1, kGpt},
      {"gpt2-774m", 36, 1280, 20, 1024, 50257, 0.1, kGpt},
      {"gpt2-1558m", 48, 1600, 25, 1024, 50257, 0.1, kGpt},
      {"codeparrot-110m", 12, 768, 12, 1024, 32768, 0.1, kGpt},
      {"gpt-1.3b", 24, 2048, 16, 1024, 50257, 0.1, kGpt},
      {"gpt-2.7b", 32, 2560, 32, 2048, 50257, 0.1, kGpt},
      {"gpt-3.7b", 36, 2816, 32, 2048, 50257, 0.1, kGpt},
      {"llama-30m", 6, 384, 6, 512, 50257, 0,
       kLlama + "--group-query-attention --num-query-groups 2 --ffn-hidden-size 1024 --rotary-base 10000"},
      {"llama-125m", 12, 768, 12, 2048, 50257, 0,
       kLlama + "--num-query-groups 12 --ffn-hidden-size 2048 --rotary-base 10000"},
      {"llama3.2-1b", 16, 2048, 32, 8192, 128256, 0,
       kLlama + "--group-query-attention --num-query-groups 8 --ffn-hidden-size 8192 --rotary-base 500000 "
                "--max-position-embeddings 131072 --use-rope-scaling --rope-scaling-factor 32"},
      {"qwen2.5-0.5b", 24, 896, 14, 4096, 151936, 0,
       kQwen2 + "--group-query-attention --num-query-groups 2 --ffn-hidden-size 4864"},
      {"qwen3-0.6b", 28, 1024, 16, 4096, 151936, 0,
       kQwen3 + "--group-query-attention --num-query-groups 8 --ffn-hidden-size 3072"},
      {"pythia-70m", 6, 512, 8, 2048, 50304, 0, kPythia},
      {"pythia-160m", 12, 768, 12, 2048, 50304, 0, kPythia}};
  return kPresets;
}

const Preset& find_preset(const std::string& name) {
  // Scripts and papers refer to the large GPTs just by size.
  const auto found = std::ranges::find_if(presets(), [&](const Preset& preset) {
    return preset.name == name || preset.name == "gpt-" + name || preset.name == "gpt2-" + name;
  });
  if (found != presets().end()) return *found;
  fail(Exit::usage, "is not a known model; choose one of ", join(presets(), ", ", &Preset::name));
}

std::vector<std::string> apply_preset(const Preset& preset, ArchitectureOptions& given) {
  ArchitectureOptions model = architecture_of(preset);
  Merger merger(model, given);
  merger.merge(Part::layers);
  merge_activation(merger, given, model);
  merge_positions(merger, given, model);
  return merger.changes;
}

}  // namespace mtl
