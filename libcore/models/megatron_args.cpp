#include "models/megatron_args.h"

#include <cmath>

#include "base/str.h"
#include "layout/stages.h"
#include "nn/rotary.h"

namespace mtl {

namespace {

/// Appends argument names and values to a dict in the pickle.
class ArgsWriter {
 public:
  explicit ArgsWriter(PickleWriter& pickle) : pickle_(pickle) {}
  void integer(const char* name, std::int64_t value) { pickle_.text(name), pickle_.integer(value); }
  void number(const char* name, double value) { pickle_.text(name), pickle_.number(value); }
  void boolean(const char* name, bool value) { pickle_.text(name), pickle_.boolean(value); }
  void text(const char* name, const char* value) { pickle_.text(name), pickle_.text(value); }
  void none(const char* name) { pickle_.text(name), pickle_.none(); }

 private:
  PickleWriter& pickle_;
};

/// Adds the stages and their chunks.
void add_pipeline(ArgsWriter& args, const Layout& pipeline, std::int64_t num_layers) {
  args.integer("pipeline_model_parallel_size", pipeline.stages());
  if (pipeline.chunks == 1) return args.none("virtual_pipeline_model_parallel_size");
  args.integer("virtual_pipeline_model_parallel_size", pipeline.chunks);
  // With --use-mp-args-from-checkpoint-args, Megatron-LM computes the number of chunks from the layers per chunk.
  args.integer("num_layers_per_virtual_pipeline_stage", split_layers(pipeline, num_layers).front().front().count);
}

void add_sizes(ArgsWriter& args, const GptConfig& config, const MegatronWriteOptions& options) {
  args.integer("num_layers", config.num_layers);
  args.integer("hidden_size", config.hidden_size);
  args.integer("ffn_hidden_size", config.ffn_hidden_size);
  args.integer("num_attention_heads", config.num_heads);
  args.integer("kv_channels", config.head_dim);
  args.boolean("group_query_attention", config.num_query_groups != config.num_heads);
  args.integer("num_query_groups", config.num_query_groups);
  args.integer("max_position_embeddings", config.max_positions);
  args.integer("seq_length", config.max_positions);
  args.integer("vocab_size", config.vocab_size);  // without padding; Megatron-LM does not load it
  args.integer("make_vocab_size_divisible_by", options.make_vocab_size_divisible_by);
  args.integer("padded_vocab_size",
               padded_vocab_size(config.vocab_size, options.make_vocab_size_divisible_by, options.tensor_parallel));
  args.integer("tensor_model_parallel_size", options.tensor_parallel);
  add_pipeline(args, options.pipeline(config.num_layers), config.num_layers);
  args.integer("context_parallel_size", 1);
  args.integer("expert_model_parallel_size", 1);
  args.none("num_experts");
}

/// Adds the run's progress. Checkpoints contain no random states, and none or all of the optimizer's.
void add_progress(ArgsWriter& args, const MegatronProgress& progress) {
  args.text("ckpt_format", progress.ckpt_format);
  args.boolean("use_distributed_optimizer", progress.has_optimizer);
  args.boolean("no_save_optim", !progress.has_optimizer);
  args.boolean("no_save_rng", true);
  args.integer("iteration", progress.iteration);
  args.integer("consumed_train_samples", progress.consumed_samples);
  args.integer("consumed_valid_samples", progress.consumed_valid_samples);
}

/// Returns the mscale that, with mscale_all_dim 0, gives yarn's attention factor.
double mscale_of(const RotaryOptions& rotary) {
  if (rotary.attention_factor == yarn_attention_factor(rotary.factor)) return 1;
  return (rotary.attention_factor - 1) / (0.1 * std::log(rotary.factor));
}

void add_positions(ArgsWriter& args, const GptConfig& config) {
  const bool is_rotary = config.position_embedding == PositionEmbedding::rotary;
  const RotaryOptions& rotary = config.rotary;
  const bool is_yarn = is_rotary && rotary.scaling == RotaryOptions::Scaling::yarn;
  args.text("position_embedding_type", is_yarn ? "yarn" : is_rotary ? "rope" : "learned_absolute");
  args.boolean("use_rotary_position_embeddings", is_rotary && !is_yarn);  // which would select rope
  args.boolean("add_position_embedding", true);
  if (!is_rotary) return;
  args.number("rotary_base", rotary.base);
  args.number("rotary_percent", rotary.percent);
  args.boolean("rotary_interleaved", rotary.interleaved);
  if (rotary.scaling == RotaryOptions::Scaling::linear)
    args.number("rotary_seq_len_interpolation_factor", rotary.factor);
  args.boolean("use_rope_scaling", rotary.scaling == RotaryOptions::Scaling::llama3);
  if (rotary.scaling == RotaryOptions::Scaling::llama3) args.number("rope_scaling_factor", rotary.factor);
  if (!is_yarn) return;
  args.number("rotary_scaling_factor", rotary.factor);
  args.integer("yarn_original_max_position_embeddings", rotary.original_positions);
  args.number("yarn_beta_fast", rotary.beta_fast);
  args.number("yarn_beta_slow", rotary.beta_slow);
  args.boolean("yarn_correction_range_round_to_int", rotary.round_pairs);
  args.number("mscale", mscale_of(rotary));
  args.number("mscale_all_dim", 0);
}

void add_layers(ArgsWriter& args, const GptConfig& config, const MegatronWriteOptions& options) {
  args.text("normalization", config.norm == Norm::rmsnorm ? "RMSNorm" : "LayerNorm");
  args.number("layernorm_epsilon", config.norm_eps);
  args.number("norm_epsilon", config.norm_eps);
  args.number("init_method_std", config.init_std);
  args.boolean("swiglu", config.gated_mlp);
  args.boolean("squared_relu", config.activation == Activation::squared_relu);
  args.boolean("bias_gelu_fusion", config.activation == Activation::gelu_tanh && config.bias.mlp);
  args.boolean("openai_gelu", config.activation == Activation::gelu_tanh && !config.bias.mlp);
  args.boolean("add_bias_linear", config.bias.mlp);
  args.boolean("add_qkv_bias", config.bias.qkv && !config.bias.mlp);
  args.boolean("qk_layernorm", config.qk_norm);
  args.boolean("untie_embeddings_and_output_weights", !config.tied_embeddings);
  args.boolean("apply_layernorm_1p", false);
  args.boolean("apply_residual_connection_post_layernorm", false);
  args.text("transformer_impl", options.transformer_engine ? "transformer_engine" : "local");
  args.boolean("use_mcore_models", true);
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
  PickleWriter& pickle = writer.pickle();
  pickle.global("argparse", "Namespace");
  pickle.begin_tuple();
  pickle.end_tuple();
  pickle.new_object();
  pickle.begin_dict();
  ArgsWriter args(pickle);
  add_sizes(args, config, options);
  add_positions(args, config);
  add_layers(args, config, options);
  add_progress(args, progress);
  if (const std::optional<ModelDropout>& dropout = source.dropout()) {
    args.number("hidden_dropout", dropout->hidden);
    args.number("attention_dropout", dropout->attention);
  }
  if (config.sliding_window > 0) {
    pickle.text("window_size");
    pickle.begin_tuple();
    pickle.integer(config.sliding_window - 1);  // number of tokens before the query
    pickle.integer(0);
    pickle.end_tuple();
  }
  args.boolean("fp16", dtype == StoredDType::f16);
  args.boolean("bf16", dtype == StoredDType::bf16);
  pickle.text("params_dtype");
  writer.dtype(dtype);
  pickle.end_dict();
  pickle.build();
}

}  // namespace mtl
