// Tables of the model families whose Hugging Face folders mtl reads and writes. A table lists the config.json keys,
// transformers' default values for them, and the tensor names. hf_config.h and hf_names.h interpret the tables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/model_dropout.h"
#include "nn/gpt_config.h"

namespace mtl {

/// A size in config.json. `fallback` is the value if the key is absent. GptConfig::complete() derives the size if the
/// value is null, or if the key is absent and `fallback` is 0. transformers also accepts the key under the names in
/// `aliases`.
struct HfSize {
  const char* key;
  std::int64_t GptConfig::*member;
  std::int64_t fallback;
  bool may_be_null = false;
  std::vector<const char*> aliases = {};
};

/// A config.json switch that determines whether the linears `members` have a bias.
struct HfBias {
  const char* key;
  bool fallback;
  std::vector<bool LinearBias::*> members;
};

/// A config.json key with a dropout probability, and transformers' default. A family without a key for embeddings uses
/// the probability of hidden states there.
struct HfDropout {
  const char* key;
  double ModelDropout::*member;
  double fallback;
};

/// Which layers have sliding-window attention, and the config.json keys that select them.
enum class HfWindow {
  none,
  everywhere,  // all layers; key sliding_window: a number, or null for no window
  by_type,     // key sliding_window, and layer_types to exclude layers
  from_layer,  // keys use_sliding_window, sliding_window, and layer_types or max_window_layers
};

/// Rotary position keys that depend on the family. All families also have rope_parameters (transformers 5) and
/// rope_scaling (older versions).
struct HfRotary {
  const char* base_key;     // at the top level of config.json, before transformers 5
  const char* percent_key;  // also at the top level; nullptr if entire heads are rotated
  double percent = 1;
};

/// Which part of a canonical tensor a file tensor holds, and the order of its axes.
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

/// A canonical module and its Hugging Face name within the layer or model. Multiple entries may describe parts of the
/// same canonical module.
struct HfModule {
  const char* canonical;
  const char* name;
  HfPart part = HfPart::whole;
};

struct HfFamily {
  const char* model_type;
  const char* architecture;  // the transformers class that loads this model
  GptConfig base;            // settings that all models in the family share
  std::vector<HfSize> sizes;
  const char* norm_eps_key;
  double norm_eps;
  const char* activation_key;
  const char* activation;
  bool tied;  // transformers' default value of tie_word_embeddings
  std::vector<HfBias> biases = {};
  const char* parallel_residual_key = nullptr;  // if config.json does not have this key, the residual is parallel
  HfWindow window = HfWindow::none;
  HfRotary rotary = {};
  std::vector<HfDropout> dropouts = {};
  // Tensor names are `prefix` + NAME outside layers and `prefix` + `layers` + "N." + NAME in layer N. The output
  // layer's name has no prefix.
  const char* prefix = "model.";
  const char* layers = "layers.";
  const char* output = "lm_head";
  const char* other_output = nullptr;  // another name that some folders use for the output layer
  std::vector<HfModule> modules = {};
  std::vector<HfModule> layer_modules = {};
  std::vector<const char*> ignored = {};  // name suffixes of constant buffers, which are not parameters
};

/// Returns all families, in the order in which hf_family_for() tries them.
std::span<const HfFamily> hf_families();
/// Returns nullptr for a model_type that is not in the table.
const HfFamily* find_hf_family(std::string_view model_type);

}  // namespace mtl
