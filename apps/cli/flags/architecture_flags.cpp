#include "cli/flags/architecture_flags.h"

#include <cmath>

#include "base/str.h"
#include "run/presets.h"

namespace mtl {

namespace {

/// Dropout rounds probabilities to multiples of 1/steps, the resolution of its random numbers (kernels/dropout.h).
/// Rejects positive probabilities that round to 0 or 1, and reports those that change by more than 5 %.
void check_steps(Flags& flags, const char* flag, double probability, double steps) {
  const double rounded = std::round(probability * steps) / steps;
  const std::string where = cat(flag, " ", probability), unit = cat("dropout uses multiples of 1/", steps);
  if (probability > 0 && (rounded == 0 || rounded == 1))
    flags.problem(where, cat("would be rounded to ", rounded, ", because ", unit, "; use another value, or 0"));
  else if (std::abs(rounded - probability) > 0.05 * probability)
    flags.notice(cat(where, " is rounded to ", rounded * steps, "/", steps, " = ", rounded, "; ", unit));
}

/// Reports an unknown preset, and nothing that any preset would have set.
void refuse_preset(Flags& flags, const std::string& where, const std::string& what) {
  flags.problem(where, what);
  for (const Preset& preset : presets()) {
    ArchitectureOptions filled;
    apply_preset(preset, filled);
    for (const std::string& flag : filled.preset_flags) flags.mark_as_meant(flag);
  }
  for (const char* flag : {"--seq-length", "--vocab-size"}) flags.mark_as_meant(flag);
}

/// Adds --model NAME. Its check is registered first, so that all other checks see the preset's values.
void add_preset(Flags& flags, TrainOptions& options) {
  flags.add("--model", &options.architecture.preset, "NAME", "architecture of a known model; other flags override it",
            suggest(texts_of(presets(), &Preset::name)));
  flags.check([&flags, &options] {
    ArchitectureOptions& model = options.architecture;
    if (!model.preset) return;
    const std::string where = cat("--model ", *model.preset);
    try {
      const Preset& preset = find_preset(*model.preset);
      for (const std::string& change : apply_preset(preset, model)) flags.notice(cat(where, ": ", change));
      if (options.data.seq_length == 0) {
        options.data.seq_length = preset.seq_length;
        model.preset_flags.insert("--seq-length");
      }
      if (!options.tokenizer.vocab_size) {
        options.tokenizer.vocab_size = preset.vocab_size;
        model.preset_flags.insert("--vocab-size");
      }
      options.new_model_dropout = {preset.dropout, preset.dropout, preset.dropout};
    } catch (const Error& error) {
      refuse_preset(flags, where, error.what());
    }
  });
}

void add_sizes(Flags& flags, ArchitectureOptions& model) {
  flags.add("--num-layers", &model.num_layers, "N", "transformer blocks", within({1, kMostLayers}));
  flags.add("--hidden-size", &model.hidden_size, "N", "width of the residual stream", within({1, 1 << 24}));
  flags.add("--num-attention-heads", &model.num_attention_heads, "N",
            "attention heads; must divide the hidden size unless --kv-channels is given", within({1, 1 << 20}));
  flags.add("--ffn-hidden-size", &model.ffn_hidden_size, "N", "inner width of the MLP (default: 4 x hidden size)",
            within({1, 1 << 26}));
  flags.add("--max-position-embeddings", &model.max_position_embeddings, "N",
            "rows of the position embedding; with rotary positions, the longest sequence", within({1, INT32_MAX}));
  flags.add("--make-vocab-size-divisible-by", &model.make_vocab_size_divisible_by, "N",
            "pad the token embedding in memory to a multiple of N times the tensor-parallel size",
            within({1, INT32_MAX}));
}

void add_attention(Flags& flags, TrainOptions& options) {
  ArchitectureOptions& model = options.architecture;
  flags.add("--kv-channels", &model.kv_channels, "N", "elements per head (default: hidden size / heads)",
            within({1, 1 << 24}));
  flags.add_switch("--group-query-attention", model.group_query_attention,
                   "let several heads share each key and value head");
  flags.add(
      "--num-query-groups", &model.num_query_groups, "N", "key and value heads (default: 1)", within({1, 1 << 20}),
      needs("--group-query-attention, because Megatron-LM ignores --num-query-groups otherwise",
            [&model] { return model.group_query_attention || model.num_query_groups == model.num_attention_heads; }));
  flags.add_switch("--qk-layernorm", model.qk_layernorm, "normalize the queries and keys of each head");
  flags.add("--window-size", &model.window_size, "LEFT,0", "let each token attend to itself and LEFT tokens before it",
            only_with("on sequences that fit into the window", [&model, &data = options.data] {
              const bool is_known = model.window_size && data.seq_length > 0;  // not if a value was refused
              return !is_known || window_of(*model.window_size).value_or(0) < data.seq_length;
            }));
}

void add_mlp(Flags& flags, ArchitectureOptions& model) {
  flags.add_switch("--swiglu", model.swiglu, "gate the MLP with SiLU; default width: 8/3 x hidden size");
  flags.add_switch("--squared-relu", model.squared_relu, "use squared ReLU in the MLP");
  flags.add("--activation", &model.activation, "NAME", "MLP activation (default: gelu_tanh)",
            one_of({kActivationNames.begin(), kActivationNames.end()}));
  flags.add_switch("--no-bias-gelu-fusion", model.no_bias_gelu_fusion,
                   "use GELU in its exact form, as Megatron-LM does with this flag");
  flags.add_switch("--openai-gelu", model.openai_gelu, "use GELU in its tanh form, which is the default");
}

void add_layers(Flags& flags, ArchitectureOptions& model) {
  flags.add("--normalization", &model.normalization, "NAME", "normalization in all layers (default: LayerNorm)",
            one_of({"LayerNorm", "RMSNorm"}));
  flags.add("--norm-epsilon,--layernorm-epsilon", &model.norm_epsilon, "X",
            "epsilon that norms add to variances (default: 1e-5)", at_least(1e-30),
            below(1));  // same bound as for checkpoints and Hugging Face folders
  flags.add_switch("--disable-bias-linear", model.disable_bias_linear, "use linear layers without bias");
  flags.add_switch("--add-qkv-bias", model.add_qkv_bias,
                   "with --disable-bias-linear: keep the bias of queries, keys and values",
                   only_with("--disable-bias-linear", [&model] { return model.disable_bias_linear; }));
  flags.add_switch("--parallel-residual", model.parallel_residual, "let attention and MLP read the same input");
  flags.add_switch("--untie-embeddings-and-output-weights", model.untie_embeddings,
                   "give the output layer its own weights");
}

/// Adds Megatron-LM's flags for YaRN, some of which have the names of latent attention's.
void add_yarn(Flags& flags, ArchitectureOptions& model) {
  flags.add("--rotary-scaling-factor", &model.rotary_scaling_factor, "X",
            "YaRN: how much longer sequences are (default: 1)", within({1, 1e6}));
  flags.add("--yarn-original-max-position-embeddings", &model.yarn_original_positions, "N",
            "YaRN: positions before scaling (default: 4096; of a loaded model without YaRN, its positions)",
            within({1, INT32_MAX}));
  flags.add("--yarn-beta-fast", &model.yarn_beta_fast, "X",
            "YaRN: keep frequencies that turn X times or more in the original positions (default: 32)", above(0),
            at_most(1e6));
  flags.add("--yarn-beta-slow", &model.yarn_beta_slow, "X",
            "YaRN: divide frequencies that turn X times or less by the factor (default: 1)", above(0), at_most(1e6));
  flags.add_switch("--yarn-correction-range-round-to-int", model.yarn_round_pairs,
                   "YaRN: interpolate between whole pairs of elements, which is the default");
  flags.add_switch("--no-yarn-correction-range-round-to-int", model.yarn_no_round_pairs,
                   "YaRN: interpolate between the exact bounds");
  flags.add("--mscale", &model.mscale, "X", "YaRN: multiply cosines and sines by 0.1 X ln(factor) + 1 (default: 1)",
            within({0, 1e3}));
  flags.add("--mscale-all-dim", &model.mscale_all_dim, "X", "YaRN: divide them by 0.1 X ln(factor) + 1 (default: 0)",
            within({0, 1e3}));
}

void add_rotary(Flags& flags, ArchitectureOptions& model) {
  flags.add("--rotary-base", &model.rotary_base, "X", "base for the rotary frequencies (default: 10000)", above(0),
            at_most(1e12));
  flags.add("--rotary-percent", &model.rotary_percent, "X", "fraction of each head to rotate (default: 1)", above(0),
            at_most(1));
  flags.add_switch("--rotary-interleaved", model.rotary_interleaved,
                   "rotate pairs of neighboring elements instead of halves");
  flags.add("--rotary-seq-len-interpolation-factor", &model.rotary_interpolation, "X", "divide positions by X",
            above(0), at_most(1e6));
  flags.add_switch("--use-rope-scaling", model.rope_scaling, "scale rotary frequencies as Llama 3.1 does");
}

void add_positions(Flags& flags, ArchitectureOptions& model, const std::function<bool()>& is_loaded) {
  const char* rope = "--position-embedding-type rope";
  const auto is_rotary = [&model, is_loaded] { return model.is_rotary() || is_loaded(); };
  const auto is_yarn = [&model, is_loaded] { return model.is_yarn() || is_loaded(); };
  flags.add("--position-embedding-type", &model.position_embedding_type, "NAME",
            "learned or rotary positions, or rotary ones with YaRN's scaling (default: learned_absolute)",
            one_of({"learned_absolute", "rope", "yarn"}));
  flags.add_switch("--use-rotary-position-embeddings", model.rotary_embeddings,
                   "same as --position-embedding-type rope");
  flags.only_with(rope, is_rotary, [&] { add_rotary(flags, model); });
  flags.add("--rope-scaling-factor", &model.rope_scaling_factor, "X", "factor for --use-rope-scaling (default: 8)",
            above(0), at_most(1e6), only_with("--use-rope-scaling", [&model] { return model.rope_scaling; }));
  flags.only_with("--position-embedding-type yarn", is_yarn, [&] { add_yarn(flags, model); });
  flags.add("--rope-parameters", &model.rope_parameters, "JSON",
            "rotary base and scaling as in transformers' rope_parameters: default, linear, dynamic, llama3, yarn, "
            "longrope",
            only_with(rope, is_rotary));
}

}  // namespace

void add_architecture_flags(Flags& flags, TrainOptions& options, const std::function<bool()>& is_loaded) {
  ArchitectureOptions& model = options.architecture;
  add_preset(flags, options);
  add_sizes(flags, model);
  add_layers(flags, model);
  add_attention(flags, options);
  add_mlp(flags, model);
  add_positions(flags, model, is_loaded);
  flags.add("--hidden-dropout", &options.hidden_dropout, "P",
            "dropout on embedding, attention and MLP outputs (default: the loaded model's, or 0.1)", at_least(0),
            below(1));
  flags.add("--attention-dropout", &options.attention_dropout, "P",
            "dropout on attention probabilities (default: the loaded model's, or 0.1)", at_least(0), below(1));
  flags.check([&flags, &options] {
    check_steps(flags, "--hidden-dropout", options.hidden_dropout.value_or(0), 65536);
    check_steps(flags, "--attention-dropout", options.attention_dropout.value_or(0), 256);
    check_architecture(options.architecture, std::bind_front(&Flags::problem, &flags));
  });
}

}  // namespace mtl
