#include "models/hf_family.h"

#include "base/find.h"

namespace mtl {

namespace {

HfFamily gpt2() {
  return {
      .model_type = "gpt2",
      .architecture = "GPT2LMHeadModel",
      .base = {},
      .sizes = {{"vocab_size", &GptConfig::vocab_size, 50257},
                {"n_positions", &GptConfig::max_positions, 1024, false, {"max_position_embeddings"}},
                {"n_embd", &GptConfig::hidden_size, 768, false, {"hidden_size"}},
                {"n_layer", &GptConfig::num_layers, 12, false, {"num_hidden_layers"}},
                {"n_head", &GptConfig::num_heads, 12, false, {"num_attention_heads"}},
                {"n_inner", &GptConfig::ffn_hidden_size, 0, true}},
      .norm_eps_key = "layer_norm_epsilon",
      .norm_eps = 1e-5,
      .activation_key = "activation_function",
      .activation = "gelu_new",
      .tied = true,
      .dropouts = {{"attn_pdrop", &ModelDropout::attention, 0.1},
                   {"embd_pdrop", &ModelDropout::embedding, 0.1},
                   {"resid_pdrop", &ModelDropout::hidden, 0.1}},
      .prefix = "transformer.",
      .layers = "h.",
      .modules = {{"embedding.tokens", "wte"}, {"embedding.positions", "wpe"}, {"final_norm", "ln_f"}},
      .layer_modules = {{"norm1", "ln_1"},
                        {"attention.qkv", "attn.c_attn", HfPart::qkv_transposed},
                        {"attention.out", "attn.c_proj", HfPart::transposed},
                        {"norm2", "ln_2"},
                        {"mlp.up", "mlp.c_fc", HfPart::transposed},
                        {"mlp.down", "mlp.c_proj", HfPart::transposed}},
      .ignored = {".attn.bias", ".attn.masked_bias"},
  };
}

/// What distinguishes Llama and the families derived from it: transformers' default sizes, windows and biases.
struct LlamaLike {
  const char *model_type, *architecture;
  std::int64_t vocab, ffn, groups, head_dim, positions;
  HfWindow window = HfWindow::none;
  std::vector<HfBias> biases = {};
  bool has_qkv_bias = false, has_qk_norm = false;
};

HfFamily llama_like(const LlamaLike& row) {
  GptConfig base;
  base.norm = Norm::rmsnorm;
  base.activation = Activation::silu;
  base.gated_mlp = true;
  base.position_embedding = PositionEmbedding::rotary;
  base.bias = {row.has_qkv_bias, false, false};
  base.qk_norm = row.has_qk_norm;
  return {
      .model_type = row.model_type,
      .architecture = row.architecture,
      .base = base,
      .sizes = {{"vocab_size", &GptConfig::vocab_size, row.vocab},
                {"max_position_embeddings", &GptConfig::max_positions, row.positions},
                {"hidden_size", &GptConfig::hidden_size, 4096},
                {"num_hidden_layers", &GptConfig::num_layers, 32},
                {"num_attention_heads", &GptConfig::num_heads, 32},
                {"num_key_value_heads", &GptConfig::num_query_groups, row.groups, true},
                {"head_dim", &GptConfig::head_dim, row.head_dim, true},
                {"intermediate_size", &GptConfig::ffn_hidden_size, row.ffn}},
      .norm_eps_key = "rms_norm_eps",
      .norm_eps = 1e-6,
      .activation_key = "hidden_act",
      .activation = "silu",
      .tied = false,
      .biases = row.biases,
      .window = row.window,
      .rotary = {"rope_theta", nullptr},
      .dropouts = {{"attention_dropout", &ModelDropout::attention, 0}},
      .modules = {{"embedding.tokens", "embed_tokens"}, {"final_norm", "norm"}},
      .layer_modules = {{"norm1", "input_layernorm"},
                        {"attention.qkv", "self_attn.q_proj", HfPart::queries},
                        {"attention.qkv", "self_attn.k_proj", HfPart::keys},
                        {"attention.qkv", "self_attn.v_proj", HfPart::values},
                        {"attention.q_norm", "self_attn.q_norm"},
                        {"attention.k_norm", "self_attn.k_norm"},
                        {"attention.out", "self_attn.o_proj"},
                        {"norm2", "post_attention_layernorm"},
                        {"mlp.up", "mlp.gate_proj", HfPart::gate},
                        {"mlp.up", "mlp.up_proj", HfPart::up},
                        {"mlp.down", "mlp.down_proj"}},
      .ignored = {"rotary_emb.inv_freq"},
  };
}

HfFamily gpt_neox() {
  GptConfig base;
  base.position_embedding = PositionEmbedding::rotary;
  return {
      .model_type = "gpt_neox",
      .architecture = "GPTNeoXForCausalLM",
      .base = base,
      .sizes = {{"vocab_size", &GptConfig::vocab_size, 50432},
                {"max_position_embeddings", &GptConfig::max_positions, 2048},
                {"hidden_size", &GptConfig::hidden_size, 6144},
                {"num_hidden_layers", &GptConfig::num_layers, 44},
                {"num_attention_heads", &GptConfig::num_heads, 64},
                {"intermediate_size", &GptConfig::ffn_hidden_size, 24576}},
      .norm_eps_key = "layer_norm_eps",
      .norm_eps = 1e-5,
      .activation_key = "hidden_act",
      .activation = "gelu",
      .tied = false,
      .biases = {{"attention_bias", true, {&LinearBias::qkv, &LinearBias::out}}},
      .parallel_residual_key = "use_parallel_residual",
      .rotary = {"rotary_emb_base", "rotary_pct", 0.25},
      .dropouts = {{"attention_dropout", &ModelDropout::attention, 0}, {"hidden_dropout", &ModelDropout::hidden, 0}},
      .prefix = "gpt_neox.",
      .output = "embed_out",
      .other_output = "lm_head",  // the class's own name since transformers 5
      .modules = {{"embedding.tokens", "embed_in"}, {"final_norm", "final_layer_norm"}},
      .layer_modules = {{"norm1", "input_layernorm"},
                        {"attention.qkv", "attention.query_key_value"},
                        {"attention.out", "attention.dense"},
                        {"norm2", "post_attention_layernorm"},
                        {"mlp.up", "mlp.dense_h_to_4h"},
                        {"mlp.down", "mlp.dense_4h_to_h"}},
      .ignored = {"rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"},
  };
}

}  // namespace

std::span<const HfFamily> hf_families() {
  const HfBias attention = {"attention_bias", false, {&LinearBias::qkv, &LinearBias::out}},
               mlp = {"mlp_bias", false, {&LinearBias::mlp}};
  // Class, defaults for sizes of vocabulary and MLP, groups, head and positions, window, biases.
  static const std::vector<HfFamily> families = {
      gpt2(),
      llama_like({"llama", "LlamaForCausalLM", 32000, 11008, 0, 0, 2048, HfWindow::none, {attention, mlp}}),
      llama_like({"mistral", "MistralForCausalLM", 32000, 14336, 8, 0, 131072, HfWindow::everywhere}),
      llama_like({"ministral", "MinistralForCausalLM", 32000, 14336, 8, 0, 131072, HfWindow::by_type}),
      llama_like({"qwen2", "Qwen2ForCausalLM", 151936, 22016, 32, 0, 32768, HfWindow::from_layer, {}, true}),
      llama_like(
          {"qwen3", "Qwen3ForCausalLM", 151936, 22016, 32, 128, 32768, HfWindow::from_layer, {attention}, false, true}),
      gpt_neox()};
  return families;
}

const HfFamily* find_hf_family(std::string_view model_type) {
  return find_or_null(hf_families(), model_type, &HfFamily::model_type);
}

}  // namespace mtl
