#include "train/presets.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

struct Sizes {
  std::int64_t layers, hidden, heads, seq_length;
};

/// GPT-2 (Radford et al. 2019) and larger models with the same architecture.
Preset gpt(const char* name, const Sizes& sizes) {
  Preset out{name, {}, sizes.seq_length, 50257, 0.1};  // GPT-2's vocabulary
  out.architecture.num_layers = sizes.layers;
  out.architecture.hidden_size = sizes.hidden;
  out.architecture.num_attention_heads = sizes.heads;
  out.architecture.max_position_embeddings = sizes.seq_length;
  out.architecture.normalization = "LayerNorm";
  out.architecture.position_embedding_type = "learned_absolute";
  return out;
}

struct LlamaSizes : Sizes {
  std::int64_t groups, ffn;
  double rotary_base;
};

/// Llama (Touvron et al. 2023): small models with tied embeddings.
Preset llama(const char* name, const LlamaSizes& sizes) {
  Preset out = gpt(name, sizes);
  ArchitectureOptions& model = out.architecture;
  out.dropout = 0;
  model.normalization = "RMSNorm";
  model.position_embedding_type = "rope";
  model.rotary_base = sizes.rotary_base;
  model.swiglu = model.disable_bias_linear = true;
  model.ffn_hidden_size = sizes.ffn;
  model.group_query_attention = sizes.groups != sizes.heads;
  model.num_query_groups = sizes.groups;
  return out;
}

Preset with_vocabulary(Preset preset, std::int64_t tokens) {
  preset.vocab_size = tokens;
  return preset;
}

/// Llama 3.2 1B: rotary frequencies scaled by 32.
Preset llama3_1b() {
  Preset out = llama("llama3.2-1b", {{16, 2048, 32, 8192}, 8, 8192, 500000});
  out.architecture.max_position_embeddings = 131072;
  out.architecture.rope_scaling = true;
  out.architecture.rope_scaling_factor = 32;
  return out;
}

/// Qwen2.5 (Yang et al. 2024): query, key and value biases.
Preset qwen2(const char* name, const LlamaSizes& sizes) {
  Preset out = llama(name, sizes);
  out.architecture.add_qkv_bias = true;
  out.architecture.norm_epsilon = 1e-6;
  out.architecture.max_position_embeddings = 32768;
  return out;
}

/// Qwen3 (Yang et al. 2025): 128-element heads, normalized queries and keys.
Preset qwen3(const char* name, const LlamaSizes& sizes) {
  Preset out = llama(name, sizes);
  out.architecture.kv_channels = 128;
  out.architecture.qk_layernorm = true;
  out.architecture.norm_epsilon = 1e-6;
  out.architecture.max_position_embeddings = 40960;
  return out;
}

/// Pythia (Biderman et al. 2023), with the GPT-NeoX architecture.
Preset pythia(const char* name, const Sizes& sizes) {
  Preset out = gpt(name, sizes);
  ArchitectureOptions& model = out.architecture;
  out.dropout = 0;
  model.position_embedding_type = "rope";
  model.rotary_percent = 0.25;
  model.activation = "gelu_erf";
  model.parallel_residual = model.untie_embeddings = true;
  return out;
}

/// Fills in absent options, whose flags it adds to `filled`, and lists given options that differ.
class Merger {
 public:
  explicit Merger(std::set<std::string>& filled) : filled_(filled) {}
  template <class T>
  void merge(const char* flag, std::optional<T>& given, const std::optional<T>& preset) {
    if (given && !preset) changes.push_back(cat(flag, " ", *given, " in addition"));
    if (given && preset && *given != *preset) changes.push_back(cat(flag, " ", *given, " in place of ", *preset));
    if (!given && preset) {
      given = preset;
      filled_.insert(flag);
    }
  }
  void merge(const char* flag, bool& given, bool preset) {
    if (given && !preset) changes.push_back(cat(flag, " in addition"));
    if (!given && preset) filled_.insert(flag);
    given = given || preset;
  }
  std::vector<std::string> changes;

 private:
  std::set<std::string>& filled_;
};

/// A given activation overrides the preset's, no matter which flags select the two.
void merge_activation(Merger& merger, ArchitectureOptions& given, const ArchitectureOptions& preset) {
  const std::vector<std::string> chosen = activation_flags(given), preset_flags = activation_flags(preset);
  if (chosen.empty()) {
    merger.merge("--activation", given.activation, preset.activation);
    merger.merge("--swiglu", given.swiglu, preset.swiglu);
  } else if (chosen != preset_flags) {
    merger.changes.push_back(
        cat(join(chosen, ", "), preset_flags.empty() ? " in addition" : cat(" in place of ", preset_flags.front())));
  }
}

void merge_positions(Merger& merger, ArchitectureOptions& given, const ArchitectureOptions& preset) {
  if (given.rotary_embeddings && !given.position_embedding_type) {
    if (preset.position_embedding_type != "rope")
      merger.changes.emplace_back("--use-rotary-position-embeddings in addition");
  } else {
    merger.merge("--position-embedding-type", given.position_embedding_type, preset.position_embedding_type);
  }
  if (given.position_embedding_type == "learned_absolute") return;
  merger.merge("--rotary-base", given.rotary_base, preset.rotary_base);
  merger.merge("--rotary-percent", given.rotary_percent, preset.rotary_percent);
  const std::vector<std::string> scalings = scaling_flags(given);
  if (!scalings.empty() && !given.rope_scaling && preset.rope_scaling) {
    merger.changes.push_back(cat(scalings.front(), " in place of --use-rope-scaling"));
    return;
  }
  merger.merge("--use-rope-scaling", given.rope_scaling, preset.rope_scaling);
  merger.merge("--rope-scaling-factor", given.rope_scaling_factor, preset.rope_scaling_factor);
}

}  // namespace

const std::vector<Preset>& presets() {
  // {layers, hidden size, heads, sequence length}, query groups, FFN size, rotary base
  static const std::vector<Preset> kPresets = {
      gpt("gpt2-124m", {12, 768, 12, 1024}),
      gpt("gpt2-345m", {24, 1024, 16, 1024}),
      gpt("gpt2-774m", {36, 1280, 20, 1024}),
      gpt("gpt2-1558m", {48, 1600, 25, 1024}),
      with_vocabulary(gpt("codeparrot-110m", {12, 768, 12, 1024}), 32768),
      gpt("gpt-1.3b", {24, 2048, 16, 1024}),
      gpt("gpt-2.7b", {32, 2560, 32, 2048}),
      gpt("gpt-3.7b", {36, 2816, 32, 2048}),
      llama("llama-30m", {{6, 384, 6, 512}, 2, 1024, 10000}),
      llama("llama-125m", {{12, 768, 12, 2048}, 12, 2048, 10000}),
      with_vocabulary(llama3_1b(), 128256),
      with_vocabulary(qwen2("qwen2.5-0.5b", {{24, 896, 14, 4096}, 2, 4864, 1000000}), 151936),
      with_vocabulary(qwen3("qwen3-0.6b", {{28, 1024, 16, 4096}, 8, 3072, 1000000}), 151936),
      with_vocabulary(pythia("pythia-70m", {6, 512, 8, 2048}), 50304),
      with_vocabulary(pythia("pythia-160m", {12, 768, 12, 2048}), 50304),
  };
  return kPresets;
}

const Preset& find_preset(const std::string& name) {
  // Scripts and papers refer to the large GPTs just by size.
  const auto found = std::find_if(presets().begin(), presets().end(), [&](const Preset& preset) {
    return preset.name == name || preset.name == "gpt-" + name || preset.name == "gpt2-" + name;
  });
  if (found != presets().end()) return *found;
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  fail(Exit::usage, "is not a known model; choose one of ", join(names, ", "));
}

std::vector<std::string> apply_preset(const Preset& preset, ArchitectureOptions& given) {
  const ArchitectureOptions& model = preset.architecture;
  Merger merger(given.preset_flags);
  merger.merge("--num-layers", given.num_layers, model.num_layers);
  merger.merge("--hidden-size", given.hidden_size, model.hidden_size);
  merger.merge("--num-attention-heads", given.num_attention_heads, model.num_attention_heads);
  merger.merge("--num-query-groups", given.num_query_groups, model.num_query_groups);
  merger.merge("--kv-channels", given.kv_channels, model.kv_channels);
  merger.merge("--ffn-hidden-size", given.ffn_hidden_size, model.ffn_hidden_size);
  merger.merge("--max-position-embeddings", given.max_position_embeddings, model.max_position_embeddings);
  merger.merge("--normalization", given.normalization, model.normalization);
  merger.merge("--norm-epsilon", given.norm_epsilon, model.norm_epsilon);
  merger.merge("--group-query-attention", given.group_query_attention, model.group_query_attention);
  merger.merge("--qk-layernorm", given.qk_layernorm, model.qk_layernorm);
  merger.merge("--disable-bias-linear", given.disable_bias_linear, model.disable_bias_linear);
  merger.merge("--add-qkv-bias", given.add_qkv_bias, model.add_qkv_bias);
  merger.merge("--untie-embeddings-and-output-weights", given.untie_embeddings, model.untie_embeddings);
  merger.merge("--parallel-residual", given.parallel_residual, model.parallel_residual);
  merge_activation(merger, given, model);
  merge_positions(merger, given, model);
  return merger.changes;
}

}  // namespace mtl
