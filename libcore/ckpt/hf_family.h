// Tables of the model families whose Hugging Face folders mtl reads and writes: the keys of config.json with
// transformers' defaults, and the names of the tensors. hf_config and hf_names interpret the tables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nn/gpt_config.h"

namespace mtl {

/// A size in config.json. GptConfig::complete derives it if the value is null, or if the key is absent and `fallback`
/// is 0.
struct HfSize {
  const char* key;
  std::int64_t GptConfig::*member;
  std::int64_t fallback;
  const char* older_key = nullptr;
};

/// A switch that decides which linears have a bias.
struct HfBias {
  const char* key;
  bool fallback;
  std::vector<bool LinearBias::*> members;
};

/// A switch with one supported value, which is also transformers' default.
struct HfFixedSwitch {
  const char* key;
  bool value;
};

/// The layers with sliding-window attention, and the keys that state them.
enum class HfWindow {
  none,
  everywhere,  // sliding_window, a number or null
  from_layer,  // use_sliding_window, sliding_window, and layer_types or max_window_layers
};

/// Keys of rotary positions. All families have rope_parameters (transformers 5) and rope_scaling (before it).
struct HfRotary {
  const char* base_key;     // at the top level, before transformers 5
  const char* percent_key;  // likewise; nullptr: whole heads are rotated
  double percent = 1;
};

/// The part of a canonical tensor that a file's tensor holds, and the order of its axes.
enum class HfPart {
  whole,
  transposed,      // Conv1D: (inputs, outputs)
  qkv_transposed,  // Conv1D whose outputs are [queries | keys | values], each (heads, head_dim)
  queries,         // queries, keys and values: parts of attention.qkv
  keys,
  values,
  gate,  // gate and up: parts of a gated mlp.up
  up,
};

/// A canonical module and its Hugging Face name within the layer or model. Several entries may be parts of one module.
struct HfModule {
  const char* canonical;
  const char* name;
  HfPart part = HfPart::whole;
};

struct HfFamily {
  const char* model_type;
  const char* architecture;  // the transformers class that loads such a model
  GptConfig base;            // common to the family's models
  std::vector<HfSize> sizes;
  const char* norm_eps_key;
  double norm_eps;
  const char* activation_key;
  const char* activation;
  bool tied;  // transformers' default of tie_word_embeddings
  std::vector<HfBias> biases = {};
  const char* parallel_residual_key = nullptr;  // the residual is parallel if config.json lacks this key
  HfWindow window = HfWindow::none;
  HfRotary rotary = {};
  std::vector<HfFixedSwitch> fixed = {};
  std::vector<const char*> dropout_keys = {};  // transformers' default of each is 0.1
  // Tensor names: `prefix` + NAME, and `prefix` + `layers` + "N." + NAME in layer N. The output layer has no prefix.
  const char* prefix = "model.";
  const char* layers = "layers.";
  const char* output = "lm_head";
  std::vector<HfModule> modules = {};
  std::vector<HfModule> layer_modules = {};
  std::vector<const char*> ignored = {};  // suffixes of constant buffers' names
};

/// Returns all families, in the order in which hf_family_for tries them.
std::span<const HfFamily> hf_families();
/// Returns nullptr for a model_type that is not in the table.
const HfFamily* find_hf_family(std::string_view model_type);

}  // namespace mtl
