#include "cli/architecture_flags.h"

#include <cmath>
#include <memory>

#include "train/presets.h"

namespace mtl {

namespace {

/// A probability acts in steps of 1/steps, the resolution of the random stream (kernels/dropout.h).
void check_steps(Flags& flags, const char* flag, double probability, double steps) {
  const double acts_as = std::round(probability * steps) / steps;
  const std::string where = cat(flag, " ", probability), unit = cat("dropout acts in steps of 1/", steps);
  if (probability > 0 && (acts_as == 0 || acts_as == 1))
    flags.problem(where, cat("would act as ", acts_as, ": ", unit));
  else if (std::abs(acts_as - probability) > 0.05 * probability)
    flags.notice(cat(where, ": acts as ", acts_as * steps, "/", steps, " = ", acts_as, "; ", unit));
}

/// --model NAME. Its check comes before all others, which then find the preset's values as if they were given.
void add_preset(Flags& flags, TrainOptions& options) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  const auto name = std::make_shared<std::optional<std::string>>();
  flags.add("--model", name.get(), "NAME", cat("architecture by name; other flags change it: ", join(names, ", ")));
  flags.check([&flags, &options, name] {
    if (!*name) return;
    try {
      const Preset& preset = find_preset(**name);
      for (const std::string& change : apply_preset(preset, options.architecture))
        flags.notice(cat("--model ", **name, ": ", change));
      if (options.data.seq_length == 0) options.data.seq_length = preset.seq_length;
      if (!flags.was_given("--hidden-dropout")) options.hidden_dropout = preset.dropout;
      if (!flags.was_given("--attention-dropout")) options.attention_dropout = preset.dropout;
    } catch (const Error& error) {
      flags.problem(cat("--model ", **name), error.what());
    }
  });
}

void add_sizes(Flags& flags, ArchitectureOptions& model) {
  flags.add("--num-layers", &model.num_layers, "N", "transformer blocks").within({1, kMostLayers});
  flags.add("--hidden-size", &model.hidden_size, "N", "width of the residual stream").within({1, 1 << 24});
  flags.add("--num-attention-heads", &model.num_attention_heads, "N", "heads; the hidden size must be a multiple")
      .within({1, 1 << 20});
  flags.add("--ffn-hidden-size", &model.ffn_hidden_size, "N", "width within an MLP; 4 x hidden size when absent")
      .within({1, 1 << 26});
  flags
      .add("--max-position-embeddings", &model.max_position_embeddings, "N",
           "rows of the position table; with rotary positions the longest sequence")
      .within({1, INT32_MAX});
  flags
      .add("--make-vocab-size-divisible-by", &model.make_vocab_size_divisible_by, "N",
           "rows of the token embedding in memory are a multiple of this times the tensor parallel size")
      .within({1, INT32_MAX});
}

void add_attention(Flags& flags, ArchitectureOptions& model) {
  flags.add("--kv-channels", &model.kv_channels, "N", "elements of a head; hidden size / heads when absent")
      .within({1, 1 << 24});
  flags.add_switch("--group-query-attention", model.group_query_attention, "let several heads share a key and a value");
  flags.add("--num-query-groups", &model.num_query_groups, "N", "heads of keys and values; 1 when absent")
      .within({1, 1 << 20})
      .needs("--group-query-attention: without it Megatron-LM ignores it",
             [&model] { return model.group_query_attention || model.num_query_groups == model.num_attention_heads; });
  flags.add_switch("--qk-layernorm", model.qk_layernorm, "normalize queries and keys, head by head");
  flags.add("--window-size", &model.window_size, "LEFT,0", "let each token see LEFT tokens before it, and itself");
}

void add_mlp(Flags& flags, ArchitectureOptions& model) {
  flags.add_switch("--swiglu", model.swiglu, "gate the MLP with SiLU; 8/3 x hidden size wide by default");
  flags.add_switch("--squared-relu", model.squared_relu, "squared ReLU in the MLP");
  flags.add("--activation", &model.activation, "NAME", "activation of the MLP; gelu_tanh when absent")
      .one_of({"gelu_tanh", "gelu_erf", "relu", "squared_relu", "silu"});
  flags.add_switch("--no-bias-gelu-fusion", model.no_bias_gelu_fusion,
                   "GELU in its exact form, as Megatron-LM computes it then");
  flags.add_switch("--openai-gelu", model.openai_gelu, "GELU in its tanh form, which is the default");
}

void add_layers(Flags& flags, ArchitectureOptions& model) {
  flags.add("--normalization", &model.normalization, "NAME", "norms of the model; LayerNorm when absent")
      .one_of({"LayerNorm", "RMSNorm"});
  flags.add("--norm-epsilon,--layernorm-epsilon", &model.norm_epsilon, "X", "added to variances; 1e-5 when absent")
      .at_least(1e-30)
      .below(1);  // as a checkpoint's or a Hugging Face folder's
  flags.add_switch("--disable-bias-linear", model.disable_bias_linear, "linear layers without bias");
  flags
      .add_switch("--add-qkv-bias", model.add_qkv_bias,
                  "bias for queries, keys and values, where no other linear layer has one")
      .only_with("--disable-bias-linear", [&model] { return model.disable_bias_linear; });
  flags.add_switch("--parallel-residual", model.parallel_residual, "let attention and MLP read the same input");
  flags.add_switch("--untie-embeddings-and-output-weights", model.untie_embeddings,
                   "an output layer with weights of its own");
}

void add_positions(Flags& flags, ArchitectureOptions& model, const std::function<bool()>& is_loaded) {
  const char* rope = "--position-embedding-type rope";
  const auto rotary = [&model, is_loaded] { return model.is_rotary() || is_loaded(); };
  flags
      .add("--position-embedding-type", &model.position_embedding_type, "NAME",
           "learned or rotary positions; learned_absolute when absent")
      .one_of({"learned_absolute", "rope"});
  flags.add_switch("--use-rotary-position-embeddings", model.rotary_embeddings,
                   "rotary positions; the same as --position-embedding-type rope");
  flags.add("--rotary-base", &model.rotary_base, "X", "base of the rotary frequencies; 10000 when absent")
      .above(0)
      .at_most(1e12)
      .only_with(rope, rotary);
  flags.add("--rotary-percent", &model.rotary_percent, "X", "part of each head that rotates; 1 when absent")
      .above(0)
      .at_most(1)
      .only_with(rope, rotary);
  flags
      .add_switch("--rotary-interleaved", model.rotary_interleaved,
                  "rotate neighbouring elements together instead of halves")
      .only_with(rope, rotary);
  flags.add("--rotary-seq-len-interpolation-factor", &model.rotary_interpolation, "X", "divide positions by X")
      .above(0)
      .at_most(1e6)
      .only_with(rope, rotary);
  flags.add_switch("--use-rope-scaling", model.rope_scaling, "scale rotary frequencies as Llama 3.1")
      .only_with(rope, rotary);
  flags.add("--rope-scaling-factor", &model.rope_scaling_factor, "X", "factor of --use-rope-scaling; 8 when absent")
      .above(0)
      .at_most(1e6)
      .only_with("--use-rope-scaling", [&model] { return model.rope_scaling; });
}

}  // namespace

void add_architecture_flags(Flags& flags, TrainOptions& options, const std::function<bool()>& is_loaded) {
  ArchitectureOptions& model = options.architecture;
  add_preset(flags, options);
  add_sizes(flags, model);
  add_layers(flags, model);
  add_attention(flags, model);
  add_mlp(flags, model);
  add_positions(flags, model, is_loaded);
  flags.add("--hidden-dropout", &options.hidden_dropout, "P", "dropout on what embedding, attention and MLP add")
      .at_least(0)
      .below(1);
  flags.add("--attention-dropout", &options.attention_dropout, "P", "dropout on attention probabilities")
      .at_least(0)
      .below(1);
  flags.check([&flags, &options] {
    check_steps(flags, "--hidden-dropout", options.hidden_dropout, 65536);
    check_steps(flags, "--attention-dropout", options.attention_dropout, 256);
    check_architecture(options.architecture, [&flags](std::string flag, std::string what) {
      flags.problem(std::move(flag), std::move(what));
    });
  });
}

}  // namespace mtl
