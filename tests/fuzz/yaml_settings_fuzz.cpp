// Parses arbitrary text as a configuration of GPT-NeoX and derives a model from it. Expects an error, or a model that
// can be built.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "models/neox_config.h"

using namespace mtl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NeoxSettings settings;
  try {
    settings = parse_yaml_settings({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    return 0;
  }
  for (const auto& [name, setting] : settings) {
    if (name.find('-') != std::string::npos || (setting.is_quoted && setting.is_nested)) std::abort();
  }
  // Llama with two layers, and GPT-NeoX with one.
  NeoxShapes llama{.common = {}, .qkv_rows = 32, .down_columns = 32};
  llama.common.layers = 2, llama.common.vocabulary_rows = 32, llama.common.hidden = 16, llama.common.up_rows = 64;
  llama.common.has_head = true;
  llama.common.bias = {.qkv = false, .out = false, .mlp = false};
  NeoxShapes neox{.common = {}, .qkv_rows = 48, .down_columns = 64};
  neox.common.layers = 1, neox.common.vocabulary_rows = 32, neox.common.hidden = 16, neox.common.up_rows = 64;
  neox.common.has_norm_bias = true;
  for (const NeoxShapes& shapes : {llama, neox}) {
    try {
      std::vector<std::string> notes;
      if (!neox_config(settings, shapes, {.num_attention_heads = 4}, notes).problems().empty()) std::abort();
      neox_dropout(settings);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data && error.code() != Exit::usage) throw;
    }
  }
  return 0;
}
