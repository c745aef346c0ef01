#include "models/hf_keys.h"

#include "base/str.h"

namespace mtl {

namespace {

constexpr HfRefusedKey kRefusedKeys[] = {
    // null means attention to later tokens in transformers' eager attention, but not in its sdpa.
    {"*", "is_causal", "[true]", "attention to later tokens; if the model is causal, remove the key"},
    {"*", "per_layer_config", "[null, {}]", "layers of different shapes"},
    {"*", "quantization_config", "[null]",
     "quantized models; use the folder from which it was quantized, or what dequantize() and save_pretrained() "
     "of transformers write"},
    {"*", "is_encoder_decoder", "[false, null]", "encoder-decoder models"},
    {"*", "attention_chunk_size", "[null]", "attention within chunks"},
    {"*", "kv_sharing_modes", "[null]", "layers that share keys and values"},
    {"*", "transformers_weights", "[null]", "weights in a file with another name"},
    {"*", "text_config", "[null]", "a model inside another model"},
    {"*", "decoder", "[null]", "a model inside another model"},
    {"*", "generator", "[null]", "a model inside another model"},
    {"*", "text_encoder", "[null]", "a model inside another model"},
    {"gpt2", "scale_attn_weights", "[true]", "attention scores that are not scaled"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "[false]", "attention scores scaled by layer"},
    {"gpt2", "add_cross_attention", "[false]", "cross-attention"},
    {"gpt2 llama gpt_neox", "sliding_window", "[null]",
     "a window in this family, where transformers applies it only to its cache"},
    {"gpt_neox", "head_dim", "[null]", "a head size apart from hidden_size / num_attention_heads"},
};

}  // namespace

std::span<const HfRefusedKey> hf_refused_keys() { return kRefusedKeys; }

bool includes_family(std::string_view families, std::string_view model_type) {
  return families == "*" || cat(" ", families, " ").find(cat(" ", model_type, " ")) != std::string::npos;
}

}  // namespace mtl
