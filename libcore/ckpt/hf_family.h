// Tables of the model families whose Hugging Face folders mtl reads and writes. A table lists the keys of config.json,
// the default values that transformers gives them, and the names of the tensors. hf_config.h and hf_names.h interpret
// the tables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nn/gpt_config.h"

namespace mtl {

/// A size in config.json. `fallback` is the value if the key is absent. GptConfig::complete() derives the size if the
/// value is null, or if the key is absent and `fallback` is 0.
struct HfSize {
  const char* key;
  std::int64_t GptConfig::*member;
  std::int64_t fallback;
  const char* older_key = nullptr;
};

/// A switch in config.json that decides whether the linears `members` have a bias.
struct HfBias {
  const char* key;
  bool fallback;
  std::vector<bool LinearBias::*> members;
};

/// A switch with only one supported value, which is also transformers' default.
struct HfFixedSwitch {
  const char* key;
  bool value;
};

/// The layers that have sliding-window attention, and the keys of config.json that select those layers.
enum class HfWindow {
  none,
  everywhere,  // all layers; key sliding_window: a number, or null for no window
  from_layer,  // keys use_sliding_window, sliding_window, and layer_types or max_window_layers
};

/// The keys of rotary positions that depend on the family. In addition, all families have rope_parameters (transformers
/// 5) and rope_scaling (older versions).
struct HfRotary {
  const char* base_key;     // at the top level of config.json, before transformers 5
  const char* percent_key;  // also at the top level; nullptr if whole heads are rotated
  double percent = 1;
};

/// The part of a canonical tensor that a tensor in a file holds, and the order of the axes in the file.
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

/// A canonical module and its Hugging Face name within the layer or model. Several entries may describe parts of the
/// same canonical module.
struct HfModule {
  const char* canonical;
  const char* name;
  HfPart part = HfPart::whole;
};

struct HfFamily {
  const char* model_type;
  const char* architecture;  // the transformers class that loads such a model
  GptConfig base;            // settings that all models of the family share
  std::vector<HfSize> sizes;
  const char* norm_eps_key;
  double norm_eps;
  const char* activation_key;
  const char* activation;
  bool tied;  // transformers' default value of tie_word_embeddings
  std::vector<HfBias> biases = {};
  const char* parallel_residual_key = nullptr;  // if config.json lacks this key, the residual is parallel
  HfWindow window = HfWindow::none;
  HfRotary rotary = {};
  std::vector<HfFixedSwitch> fixed = {};
  std::vector<const char*> dropout_keys = {};  // the default value of each key in transformers is 0.1
  // Tensor names are `prefix` + NAME outside of layers and `prefix` + `layers` + "N." + NAME in layer N. The name of
  // the output layer has no prefix.
  const char* prefix = "model.";
  const char* layers = "layers.";
  const char* output = "lm_head";
  std::vector<HfModule> modules = {};
  std::vector<HfModule> layer_modules = {};
  std::vector<const char*> ignored = {};  // name suffixes of constant buffers, which are not parameters
};

/// Returns all families, in the order in which hf_family_for() tries them.
std::span<const HfFamily> hf_families();
/// Returns nullptr for a model_type that is not in the table.
const HfFamily* find_hf_family(std::string_view model_type);

}  // namespace mtl
