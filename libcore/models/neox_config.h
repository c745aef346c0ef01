// Derives a GPT-NeoX checkpoint's configuration from its tensors and from its settings: configs/*.yml, where GPT-NeoX
// saves its configuration, and the few arguments in the model's file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/pickle.h"
#include "formats/yaml_settings.h"
#include "models/megatron_config.h"
#include "models/model_dropout.h"
#include "nn/gpt_config.h"

namespace mtl {

using NeoxSettings = std::map<std::string, YamlSetting>;

/// Facts derived from the tensors, beside MegatronShapes.
struct NeoxShapes {
  MegatronShapes common;
  std::int64_t qkv_rows = 0;      // of queries, keys and values together
  std::int64_t down_columns = 0;  // inputs of the MLP's second linear, F
  bool has_gate_matrix = false;   // mlp.w1 and mlp.w3
};

/// Reads the settings in `files`, and the arguments, for what the files do not state. Throws Error(bad_data) with the
/// file if a file is not in a style of yaml_settings.h.
NeoxSettings read_neox_settings(const std::vector<std::string>& files, const std::optional<PickleValue>& args);

/// Derives the configuration. Throws Error(bad_data) that lists everything that contradicts the shapes or that mtl does
/// not support. Throws UsageError as megatron_config() does. Appends a note to `notes` for each setting that the files
/// do not state.
GptConfig neox_config(const NeoxSettings& settings, const NeoxShapes& shapes, const ModelSupplement& given,
                      std::vector<std::string>& notes);

/// Returns the dropout in the settings, with GPT-NeoX's default for a missing one, 0. Empty if only the arguments in
/// the model's file are known. Throws Error(bad_data) if a value is not a probability.
std::optional<ModelDropout> neox_dropout(const NeoxSettings& settings);

}  // namespace mtl
