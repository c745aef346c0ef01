#include "models/megatron_args.h"

#include <cmath>

#include "base/str.h"
#include "layout/stages.h"
#include "nn/rotary.h"

namespace mtl {

namespace {

/// Adds the stages and their chunks.
void add_pipeline(PickleWriter& args, const Layout& pipeline, std::int64_t num_layers) {
  args.values("pipeline_model_parallel_size", pipeline.stages());
  if (pipeline.chunks == 1) return args.values("virtual_pipeline_model_parallel_size", nullptr);
  args.values("virtual_pipeline_model_parallel_size", pipeline.chunks);
  // With --use-mp-args-from-checkpoint-args, Megatron-LM computes the number of chunks from the layers per chunk.
  args.values("num_layers_per_virtual_pipeline_stage", split_layers(pipeline, num_layers).front().front().count);
}

void add_sizes(PickleWriter& args, const GptConfig& config, const MegatronWriteOptions& options) {
  args.values("num_layers", config.num_layers);
  args.values("hidden_size", config.hidden_size);
  args.values("ffn_hidden_size", config.ffn_hidden_size);
  args.values("num_attention_heads", config.num_heads);
  args.values("kv_channels", config.head_dim);
  args.values("group_query_attention", config.num_query_groups != config.num_heads);
  args.values("num_query_groups", config.num_query_groups);
  args.values("max_position_embeddings", config.max_positions);
  args.values("seq_length", config.max_positions);
  args.values("vocab_size", config.vocab_size);  // without padding; Megatron-LM does not load it
  args.values("make_vocab_size_divisible_by", options.make_vocab_size_divisible_by);
  args.values("padded_vocab_size",
              padded_vocab_size(config.vocab_size, options.make_vocab_size_divisible_by, options.tensor_parallel));
  args.values("tensor_model_parallel_size", options.tensor_parallel);
  add_pipeline(args, options.pipeline(config.num_layers), config.num_layers);
  args.values("context_parallel_size", 1);
  args.values("expert_model_parallel_size", 1);
  args.values("num_experts", nullptr);
}

/// Adds the run's progress. Checkpoints contain no random states, and none or all of the optimizer's.
void add_progress(PickleWriter& args, const MegatronProgress& progress) {
  args.values("ckpt_format", progress.ckpt_format);
  args.values("use_distributed_optimizer", progress.has_optimizer);
  args.values("no_save_optim", !progress.has_optimizer);
  args.values("no_save_rng", true);
  args.values("iteration", progress.iteration);
  args.values("consumed_train_samples", progress.consumed_samples);
  args.values("consumed_valid_samples", progress.consumed_valid_samples);
}

/// Returns the mscale that, with mscale_all_dim 0, gives yarn's attention factor.
double mscale_of(const RotaryOptions& rotary) {
  if (rotary.attention_factor == yarn_attention_factor(rotary.factor)) return 1;
  return (rotary.attention_factor - 1) / (0.1 * std::log(rotary.factor));
}

void add_positions(PickleWriter& args, const GptConfig& config) {
  const bool is_rotary = config.position_embedding == PositionEmbedding::rotary;
  const RotaryOptions& rotary = config.rotary;
  const bool is_yarn = is_rotary && rotary.scaling == RotaryOptions::Scaling::yarn;
  args.values("position_embedding_type", is_yarn ? "yarn" : is_rotary ? "rope" : "learned_absolute");
  args.values("use_rotary_position_embeddings", is_rotary && !is_yarn);  // which would select rope
  args.values("add_position_embedding", true);
  if (!is_rotary) return;
  args.values("rotary_base", rotary.base);
  args.values("rotary_percent", rotary.percent);
  args.values("rotary_interleaved", rotary.interleaved);
  if (rotary.scaling == RotaryOptions::Scaling::linear)
    args.values("rotary_seq_len_interpolation_factor", rotary.factor);
  args.values("use_rope_scaling", rotary.scaling == RotaryOptions::Scaling::llama3);
  if (rotary.scaling == RotaryOptions::Scaling::llama3) args.values("rope_scaling_factor", rotary.factor);
  if (!is_yarn) return;
  args.values("rotary_scaling_factor", rotary.factor);
  args.values("yarn_original_max_position_embeddings", rotary.original_positions);
  args.values("yarn_beta_fast", rotary.beta_fast);
  args.values("yarn_beta_slow", rotary.beta_slow);
  args.values("yarn_correction_range_round_to_int", rotary.round_pairs);
  args.values("mscale", mscale_of(rotary));
  args.values("mscale_all_dim", 0.0);
}

void add_layers(PickleWriter& args, const GptConfig& config, const MegatronWriteOptions& options) {
  args.values("normalization", config.norm == Norm::rmsnorm ? "RMSNorm" : "LayerNorm");
  args.values("layernorm_epsilon", config.norm_eps);
  args.values("norm_epsilon", config.norm_eps);
  args.values("init_method_std", config.init_std);
  args.values("swiglu", config.gated_mlp);
  args.values("squared_relu", config.activation == Activation::squared_relu);
  args.values("bias_gelu_fusion", config.activation == Activation::gelu_tanh && config.bias.mlp);
  args.values("openai_gelu", config.activation == Activation::gelu_tanh && !config.bias.mlp);
  args.values("add_bias_linear", config.bias.mlp);
  args.values("add_qkv_bias", config.bias.qkv && !config.bias.mlp);
  args.values("qk_layernorm", config.qk_norm);
  args.values("untie_embeddings_and_output_weights", !config.tied_embeddings);
  args.values("apply_layernorm_1p", false);
  args.values("apply_residual_connection_post_layernorm", false);
  args.values("transformer_impl", options.transformer_engine ? "transformer_engine" : "local");
  args.values("use_mcore_models", true);
}

void add_rotary_problems(const RotaryOptions& rotary, std::vector<std::string>& out) {
  using Scaling = RotaryOptions::Scaling;
  if (rotary.depends_on_length())
    out.push_back("Megatron-LM has no rotary frequencies that depend on the length of the sequence");
  if (rotary.scaling == Scaling::yarn && (rotary.percent != 1 || rotary.interleaved))
    out.push_back("Megatron-LM's yarn rotates the halves of entire heads");
  if (rotary.scaling == Scaling::yarn && rotary.factor <= 1 && rotary.attention_factor != 1)
    out.push_back(cat("Megatron-LM's yarn has no attention factor such as ", rotary.attention_factor,
                      " if it does not stretch positions"));
  const RotaryOptions llama3;  // RotaryOptions defaults equal Megatron-LM's constants
  if (rotary.scaling == Scaling::llama3 &&
      (rotary.low_freq_factor != llama3.low_freq_factor || rotary.high_freq_factor != llama3.high_freq_factor ||
       rotary.original_positions != llama3.original_positions))
    out.push_back(cat("Megatron-LM's rotary scaling has low_freq_factor ", llama3.low_freq_factor,
                      ", high_freq_factor ", llama3.high_freq_factor, " and ", llama3.original_positions,
                      " original positions; this model's are ", rotary.low_freq_factor, ", ", rotary.high_freq_factor,
                      " and ", rotary.original_positions));
}

/// Adds sizes that are not multiples of the parallel sizes, and chunks without other stages.
void add_size_problems(const GptConfig& config, const MegatronWriteOptions& options, std::vector<std::string>& out) {
  const std::int64_t ranks = options.tensor_parallel, stages = options.pipeline_parallel;
  const std::string by_ranks = cat("--tensor-model-parallel-size ", ranks),
                    by_stages = cat("--pipeline-model-parallel-size ", stages);
  auto divides = [&](const char* what, std::int64_t number, const std::string& flags, std::int64_t by) {
    if (number % by != 0) out.push_back(cat(what, " ", number, " is not a multiple of ", flags));
  };
  const auto& per_chunk = options.layers_per_virtual_stage;
  const int chunks = options.pipeline(config.num_layers).chunks;
  if (stages == 1 && chunks > 1)
    out.push_back(cat(by_stages, " has no other stage to interleave ", chunks, " chunks with"));
  else if (per_chunk)
    divides("the number of layers", config.num_layers,
            cat(by_stages, " x --num-layers-per-virtual-pipeline-stage ", *per_chunk), stages * *per_chunk);
  else
    divides("the number of layers", config.num_layers,
            chunks > 1 ? cat(by_stages, " x --num-virtual-stages-per-pipeline-rank ", chunks) : by_stages,
            stages * chunks);
  divides("the number of query groups", config.num_query_groups, by_ranks, ranks);
  divides("the feed-forward size", config.ffn_hidden_size, by_ranks, ranks);
}

}  // namespace

std::vector<std::string> megatron_problems(const GptConfig& config, const MegatronWriteOptions& options) {
  std::vector<std::string> out;
  const LinearBias& bias = config.bias;
  if (config.parallel_residual) out.push_back("Megatron-LM has no parallel residual");
  if (bias.out != bias.mlp || (bias.mlp && !bias.qkv))
    out.push_back("Megatron-LM has biases on all linear layers, on queries, keys and values alone, or on none");
  if (config.gated_mlp ? config.activation != Activation::silu
                       : config.activation == Activation::silu || config.activation == Activation::relu)
    out.push_back("Megatron-LM has no argument for the activation of this MLP; it has GELU, squared ReLU and SwiGLU");
  if (config.qk_norm && config.norm != Norm::rmsnorm)
    out.push_back("Megatron-LM uses the same normalization for queries and keys as for layers, here LayerNorm");
  if (config.first_window_layer > 0) out.push_back("Megatron-LM has no attention window that starts at a later layer");
  if (config.position_embedding == PositionEmbedding::rotary) add_rotary_problems(config.rotary, out);
  add_size_problems(config, options, out);
  return out;
}

void write_megatron_args(TorchWriter& writer, const ModelSource& source, const MegatronWriteOptions& options,
                         StoredDType dtype, const MegatronProgress& progress) {
  const GptConfig& config = source.config();
  PickleWriter& args = writer.pickle();
  args.object("argparse", "Namespace");
  args.begin_dict();
  add_sizes(args, config, options);
  add_positions(args, config);
  add_layers(args, config, options);
  add_progress(args, progress);
  if (const std::optional<ModelDropout>& dropout = source.dropout())
    args.values("hidden_dropout", dropout->hidden, "attention_dropout", dropout->attention);
  if (config.sliding_window > 0)  // tokens before and after the query
    args.values("window_size", [&] { args.tuple(config.sliding_window - 1, 0); });
  args.values("fp16", dtype == StoredDType::f16, "bf16", dtype == StoredDType::bf16);
  args.values("params_dtype", [&] { writer.dtype(dtype); });
  args.end_dict();
  args.build();
}

}  // namespace mtl
