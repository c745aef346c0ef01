#include "models/megatron_config.h"

#include "base/printable.h"
#include "base/usage_error.h"
#include "models/canonical.h"
#include "nn/rotary.h"

namespace mtl {

namespace {

/// A run's arguments, by name. None counts as absent. A value of an unexpected kind also counts as absent, and adds a
/// problem.
class MegatronArgs {
 public:
  MegatronArgs(const std::optional<PickleValue>& args, std::vector<std::string>& problems)
      : args_(args), problems_(problems) {}

  std::optional<PickleValue> find(const char* name) const { return args_ ? args_->find_not_none(name) : std::nullopt; }
  std::optional<std::int64_t> integer(const char* name) const {
    return read<std::int64_t>(name, [](PickleValue value) { return checked(value.as_int()); });
  }
  double number_or(const char* name, double fallback) const {
    return read<double>(name, [](PickleValue value) { return value.as_number(); }).value_or(fallback);
  }
  std::optional<bool> boolean(const char* name) const {
    return read<bool>(name, [](PickleValue value) { return value.as_bool(); });
  }
  bool is_on(const char* name) const { return boolean(name).value_or(false); }
  std::string text_or(const char* name, const char* fallback) const {
    return read<std::string>(name, [](PickleValue value) { return std::string(value.as_text()); }).value_or(fallback);
  }

 private:
  /// Rejects negative sizes, and sizes so large that the product of two could overflow.
  static std::int64_t checked(std::int64_t value) {
    constexpr std::int64_t kMaxArgument = std::int64_t{1} << 31;
    if (value < 0 || value > kMaxArgument) fail(Exit::bad_data, value, ", but must be from 0 to ", kMaxArgument);
    return value;
  }
  template <class T, class Convert>
  std::optional<T> read(const char* name, const Convert& convert) const {
    const std::optional<PickleValue> value = find(name);
    if (!value) return std::nullopt;
    try {
      return convert(*value);
    } catch (const Error& error) {
      problems_.push_back(cat("args.", name, " is ", error.what()));
      return std::nullopt;
    }
  }

  const std::optional<PickleValue>& args_;
  std::vector<std::string>& problems_;
};

/// An argument that changes the model in a way that mtl does not support. Arguments in kRefusedSwitches must be off;
/// those in kRefusedValues must be absent.
struct RefusedArg {
  const char* name;
  const char* why;
};

constexpr RefusedArg kRefusedSwitches[] = {
    {"embed_layernorm", "a norm of the embeddings (BLOOM's) is not supported"},
    {"apply_residual_connection_post_layernorm", "residuals of normalized values are not supported"},
    {"apply_layernorm_1p", "norm weights stored minus 1 are not supported"},
    {"multi_latent_attention", "latent attention is not supported"},
    {"attention_output_gate", "gates of the attention output are not supported"},
    {"qk_l2_norm", "norms of queries and keys without weights are not supported"},
    {"quick_geglu", "this activation is not supported"}};

constexpr RefusedArg kRefusedValues[] = {
    {"mtp_num_layers", "multi-token prediction is not supported"},
    {"hybrid_override_pattern", "hybrid models are not supported"},
    {"heterogeneous_layers_config_path", "heterogeneous layers are not supported"},
    {"heterogeneous_layers_config_encoded_json", "heterogeneous layers are not supported"},
    {"window_attn_skip_freq", "a window in some of the layers is not supported"},
    {"no_rope_freq", "rotary positions in some of the layers are not supported"},
    {"rotary_base_per_layer", "rotary positions that differ between layers are not supported"},
    {"softmax_scale", "a custom softmax scale is not supported"}};

/// True for Microsoft's Megatron-DeepSpeed's default, a list with one expert for each layer that has its own number.
bool is_single_expert(PickleValue experts) {
  bool is_single = experts.is(PickleKind::list);
  for (std::size_t i = 0; is_single && i < experts.size(); ++i)
    is_single = experts.at(i).is(PickleKind::integer) && experts.at(i).as_int() == 1;
  return is_single;
}

void refuse_args(const MegatronArgs& args, std::vector<std::string>& problems) {
  for (const RefusedArg& refused : kRefusedSwitches) {
    const std::optional<PickleValue> value = args.find(refused.name);
    const bool is_off = !value || (value->is(PickleKind::boolean) && !value->as_bool());
    if (!is_off) problems.push_back(cat("args.", refused.name, " is on; ", refused.why));
  }
  for (const RefusedArg& refused : kRefusedValues) {
    if (args.find(refused.name)) problems.push_back(cat("args.", refused.name, " is given; ", refused.why));
  }
  if (const std::optional<PickleValue> experts = args.find("num_experts"); experts && !is_single_expert(*experts))
    problems.push_back("args.num_experts is given; mixtures of experts are not supported");
  if (const std::string softmax = args.text_or("softmax_type", "vanilla"); softmax != "vanilla")
    problems.push_back(cat("args.softmax_type is '", printable_text(softmax), "', which is not supported"));
  if (const double offset = args.number_or("glu_linear_offset", 0); offset != 0)
    problems.push_back(cat("args.glu_linear_offset is ", offset, ", which is not supported"));
}

/// Throws if there are problems: an unsupported model, or arguments that do not fit the tensors.
void refuse_problems(const std::vector<std::string>& problems) {
  if (!problems.empty())
    fail(Exit::bad_data, join(problems, "; "), "; load another model, or copy all files of this one again");
}

/// Adds a problem if an argument differs from `size`, which the tensors show.
void expect_size(const MegatronArgs& args, const char* name, std::int64_t size, std::vector<std::string>& problems) {
  const std::optional<std::int64_t> value = args.integer(name);
  if (value && *value != size) problems.push_back(cat("args.", name, " is ", *value, ", but the tensors have ", size));
}

/// Sets the MLP activation. Megatron-LM computes the tanh form of GELU with bias-GELU fusion, with --openai-gelu, and
/// in all releases that saved no arguments. In all other cases, and always with --onnx-safe, it computes torch's exact
/// form.
void set_activation(const MegatronArgs& args, bool has_args, double version, GptConfig& config,
                    std::vector<std::string>& problems, std::vector<std::string>& notes) {
  const std::string glu = args.text_or("glu_activation", "");  // BigScience's Megatron-DeepSpeed
  config.gated_mlp = args.is_on("swiglu") || !glu.empty();
  if (glu == "geglu" || glu == "reglu") {
    config.activation = glu == "geglu" ? Activation::gelu_erf : Activation::relu;
  } else if (config.gated_mlp) {
    if (!glu.empty() && glu != "swiglu")
      problems.push_back(cat("args.glu_activation is '", printable_text(glu), "', which is not supported"));
    config.activation = Activation::silu;
  } else if (args.is_on("squared_relu")) {
    config.activation = Activation::squared_relu;
  } else if (!has_args) {
    config.activation = Activation::gelu_tanh;
    if (version >= 1)
      notes.push_back(
          "the checkpoint has no args, which state the form of GELU; mtl assumes the tanh form, Megatron-LM's default");
  } else {
    const bool is_fused = args.boolean("bias_gelu_fusion").value_or(version < 1) && config.bias.mlp;
    const bool is_tanh = !args.is_on("onnx_safe") && (is_fused || args.is_on("openai_gelu"));
    config.activation = is_tanh ? Activation::gelu_tanh : Activation::gelu_erf;
  }
}

void set_rotary(const MegatronArgs& args, RotaryOptions& rotary) {
  rotary.base = args.number_or("rotary_base", args.number_or("rope_theta", 10000));  // Megatron-DeepSpeed: rope_theta
  rotary.percent = args.number_or("rotary_percent", 1);
  rotary.interleaved = args.is_on("rotary_interleaved");
  if (constexpr const char* factor = "rotary_seq_len_interpolation_factor"; args.find(factor)) {
    rotary.scaling = RotaryOptions::Scaling::linear;
    rotary.factor = args.number_or(factor, 1);
  }
  if (args.is_on("use_rope_scaling")) {  // Llama 3.1's scaling; its other constants are fixed in Megatron-LM
    rotary.scaling = RotaryOptions::Scaling::llama3;
    rotary.factor = args.number_or("rope_scaling_factor", 8);
  }
}

/// Returns the kind of positions. In BigScience's Megatron-DeepSpeed it is an enumeration.
std::string position_type_of(const MegatronArgs& args) {
  const std::optional<PickleValue> value = args.find("position_embedding_type");
  const bool is_enumeration = value && value->is(PickleKind::object) && value->arguments().size() == 1 &&
                              value->arguments().at(0).is(PickleKind::integer);
  if (!is_enumeration) return args.text_or("position_embedding_type", "learned_absolute");
  switch (value->arguments().at(0).as_int()) {
    case 1:
      return "rope";
    case 2:
      return "learned_absolute";
    case 3:
      return "alibi";
    default:
      return value->describe();
  }
}

/// Sets Megatron-LM's YaRN, which rotates entire heads whatever rotary_percent says.
void set_yarn(const MegatronArgs& args, RotaryOptions& rotary) {
  constexpr std::int64_t kDefaultPositions = 4096;
  rotary.scaling = RotaryOptions::Scaling::yarn;
  rotary.base = args.number_or("rotary_base", 10000);
  rotary.factor = args.number_or("rotary_scaling_factor", 1);
  rotary.original_positions = args.integer("yarn_original_max_position_embeddings").value_or(kDefaultPositions);
  rotary.beta_fast = args.number_or("yarn_beta_fast", rotary.beta_fast);
  rotary.beta_slow = args.number_or("yarn_beta_slow", rotary.beta_slow);
  rotary.round_pairs = args.boolean("yarn_correction_range_round_to_int").value_or(true);
  rotary.attention_factor =
      yarn_attention_factor(rotary.factor, args.number_or("mscale", 1), args.number_or("mscale_all_dim", 0));
}

void set_positions(const MegatronArgs& args, const MegatronShapes& shapes, GptConfig& config,
                   std::vector<std::string>& problems) {
  const std::string type = position_type_of(args);
  const bool is_yarn = type == "yarn";
  const bool is_rotary = type == "rope" || is_yarn || args.is_on("use_rotary_position_embeddings");
  if (!is_rotary && type != "learned_absolute")
    problems.push_back(cat("args.position_embedding_type is '", printable_text(type), "', which is not supported"));
  if (is_rotary) {
    config.position_embedding = PositionEmbedding::rotary;
    config.max_positions = args.integer("max_position_embeddings").value_or(args.integer("seq_length").value_or(0));
    is_yarn ? set_yarn(args, config.rotary) : set_rotary(args, config.rotary);
  } else if (shapes.positions == 0) {
    problems.push_back("the checkpoint has no position embeddings, and no args that specify another kind");
  } else {
    config.max_positions = shapes.positions;
    expect_size(args, "max_position_embeddings", shapes.positions, problems);
  }
}

/// Returns how many tokens a query attends to, including its own, or 0 for all tokens. window_size is (LEFT, RIGHT),
/// where -1 means all tokens. RIGHT has no effect, because attention is causal.
std::int64_t window_of(const MegatronArgs& args, std::vector<std::string>& problems) {
  const std::optional<PickleValue> window = args.find("window_size");
  if (!window) return 0;
  const bool is_pair = (window->is(PickleKind::tuple) || window->is(PickleKind::list)) && window->size() == 2 &&
                       window->at(0).is(PickleKind::integer);
  const std::int64_t left = is_pair ? window->at(0).as_int() : -2;
  if (left < -1 || left >= INT32_MAX)
    problems.push_back("args.window_size must be a pair (LEFT, RIGHT), where LEFT is an integer from -1 to 2147483646");
  return left + 1;
}

void set_attention(const MegatronArgs& args, const MegatronShapes& shapes, const ModelSupplement& given,
                   GptConfig& config, std::vector<std::string>& problems) {
  const std::optional<std::int64_t> heads = args.integer("num_attention_heads");
  if (!heads && !given.num_attention_heads)
    throw UsageError(
        "--num-attention-heads",
        "is required, because the checkpoint has no args, and its tensors do not show the number of heads");
  config.num_heads = heads.value_or(given.num_attention_heads.value_or(0));
  if (!heads && config.hidden_size % config.num_heads != 0)
    throw UsageError(cat(given.heads_flag, " ", config.num_heads),
                     cat("does not divide the hidden size ", config.hidden_size,
                         " of the checkpoint; use its model's number of heads"));
  config.num_query_groups = config.num_heads;
  if (args.is_on("group_query_attention"))
    config.num_query_groups = args.integer("num_query_groups").value_or(config.num_heads);
  if (const std::optional<std::int64_t> groups = args.integer("num_key_value_heads"))  // Megatron-DeepSpeed
    config.num_query_groups = *groups;
  config.head_dim =
      args.integer("kv_channels").value_or(config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  config.qk_norm = shapes.query_norm > 0;
  config.sliding_window = window_of(args, problems);
}

}  // namespace

std::int64_t axis_size(const std::optional<std::vector<std::int64_t>>& shape, std::size_t axis) {
  return shape && axis < shape->size() ? (*shape)[axis] : 0;
}

MegatronShapes megatron_shapes(
    std::int64_t layers,
    const std::function<std::optional<std::vector<std::int64_t>>(const std::string& name)>& shape_of) {
  const auto has = [&](const char* name) { return shape_of(name).has_value(); };
  return {.layers = layers,
          .vocabulary_rows = axis_size(shape_of(kTokenEmbedding), 0),
          .hidden = axis_size(shape_of(kTokenEmbedding), 1),
          .up_rows = axis_size(shape_of("layers.0.mlp.up.weight"), 0),
          .query_norm = axis_size(shape_of("layers.0.attention.q_norm.weight"), 0),
          .positions = axis_size(shape_of(kPositionEmbedding), 0),
          .has_norm_bias = has("final_norm.bias"),
          .has_head = has(kOutputLayer),
          .bias = {.qkv = has("layers.0.attention.qkv.bias"),
                   .out = has("layers.0.attention.out.bias"),
                   .mlp = has("layers.0.mlp.up.bias")}};
}

void read_megatron_args(TensorReader& reader, const std::string& path, const std::optional<PickleValue>& args,
                        double version, const MegatronShapes& shapes, const ModelSupplement& given, Console& console) {
  std::vector<std::string> notes;
  with_where(path, [&] {
    reader.config = megatron_config(args, version, shapes, given, notes);
    reader.dropout = megatron_dropout(args);
  });
  for (const std::string& note : notes) console.warn(cat(path, ": ", note));
  reader.has_padded_vocabulary = !given.vocab_size && !megatron_vocabulary(args, shapes.vocabulary_rows);
}

std::pair<std::int64_t, std::int64_t> megatron_parallel_sizes(const std::optional<PickleValue>& args) {
  std::vector<std::string> ignored;
  const MegatronArgs view(args, ignored);
  const std::int64_t tensor =
      view.integer("tensor_model_parallel_size").value_or(view.integer("model_parallel_size").value_or(0));
  return {tensor, view.integer("pipeline_model_parallel_size").value_or(0)};
}

bool is_switched_on(PickleValue args, const char* name) {
  const std::optional<PickleValue> value = args.find_not_none(name);
  return value && value->as_bool();
}

std::optional<std::int64_t> megatron_vocabulary(const std::optional<PickleValue>& args, std::int64_t rows) {
  std::vector<std::string> ignored;
  const MegatronArgs view(args, ignored);
  std::optional<std::int64_t> tokens = view.integer("vocab_size");
  const std::string tokenizer = view.text_or("tokenizer_type", "");  // mtl names none, and states the number itself
  const bool is_null = tokenizer == "NullTokenizer";
  if (!tokens || *tokens < 1 || !(tokenizer.empty() || is_null || tokenizer == "TikTokenizer")) return std::nullopt;
  // Before Megatron-LM had an argument for its id, the end of document followed the tokens.
  if (is_null && !args->find("null_tokenizer_eod_id")) ++*tokens;
  return *tokens <= rows ? tokens : std::nullopt;
}

std::optional<ModelDropout> megatron_dropout(const std::optional<PickleValue>& args) {
  constexpr double kDefault = 0.1;
  std::vector<std::string> problems;
  const MegatronArgs view(args, problems);
  if (!view.find("hidden_dropout") && !view.find("attention_dropout")) return std::nullopt;
  const double hidden = checked_dropout("args.hidden_dropout", view.number_or("hidden_dropout", kDefault));
  const double attention = checked_dropout("args.attention_dropout", view.number_or("attention_dropout", kDefault));
  refuse_problems(problems);
  return ModelDropout{.hidden = hidden, .attention = attention, .embedding = hidden};
}

void check_vocabulary(std::int64_t tokens, std::int64_t rows) {
  if (tokens > rows)
    throw UsageError(cat("--vocab-size ", tokens),
                     cat("exceeds the ", rows, " rows of the checkpoint's token embedding; use at most ", rows));
}

GptConfig megatron_config(const std::optional<PickleValue>& pickled, double version, const MegatronShapes& shapes,
                          const ModelSupplement& given, std::vector<std::string>& notes) {
  std::vector<std::string> problems;
  const MegatronArgs args(pickled, problems);
  GptConfig config;
  config.num_layers = shapes.layers;
  config.hidden_size = shapes.hidden;
  const std::optional<std::int64_t> stated = megatron_vocabulary(pickled, shapes.vocabulary_rows);
  config.vocab_size = given.vocab_size.value_or(stated.value_or(shapes.vocabulary_rows));
  expect_size(args, "num_layers", shapes.layers, problems);
  expect_size(args, "hidden_size", shapes.hidden, problems);
  if (!shapes.has_stripped_vocabulary) expect_size(args, "padded_vocab_size", shapes.vocabulary_rows, problems);
  check_vocabulary(config.vocab_size, shapes.vocabulary_rows);
  config.bias = shapes.bias;
  set_activation(args, pickled.has_value(), version, config, problems, notes);
  config.ffn_hidden_size = shapes.up_rows / (config.gated_mlp ? 2 : 1);
  expect_size(args, "ffn_hidden_size", config.ffn_hidden_size, problems);
  set_positions(args, shapes, config, problems);
  set_attention(args, shapes, given, config, problems);
  if (version < 2 && config.num_query_groups != config.num_heads)
    problems.push_back(cat("grouped queries are not supported in a checkpoint with checkpoint_version ", version));

  std::string norm = args.text_or("normalization", shapes.has_norm_bias ? "LayerNorm" : "RMSNorm");
  if (norm == "layernorm") norm = "LayerNorm";  // Megatron-DeepSpeed
  if (norm == "rmsnorm") norm = "RMSNorm";
  if (norm != "LayerNorm" && norm != "RMSNorm")
    problems.push_back(cat("args.normalization is '", printable_text(norm), "', which is not supported"));
  config.norm = norm == "RMSNorm" ? Norm::rmsnorm : Norm::layernorm;
  const char* epsilon = args.find("layernorm_epsilon") ? "layernorm_epsilon" : "norm_epsilon";
  config.norm_eps = args.number_or(epsilon, 1e-5);
  if (!(config.norm_eps > 0 && config.norm_eps < 1))
    problems.push_back(cat("args.", epsilon, " is ", config.norm_eps, ", but must be above 0 and below 1"));
  config.init_std = args.number_or("init_method_std", 0.02);
  if (!(config.init_std >= 0 && config.init_std < 1e3))
    problems.push_back(cat("args.init_method_std is ", config.init_std, ", but must be at least 0 and below 1000"));
  config.tied_embeddings = !shapes.has_head;
  if (args.boolean("untie_embeddings_and_output_weights").value_or(shapes.has_head) != shapes.has_head)
    problems.push_back(cat("args.untie_embeddings_and_output_weights is ", !shapes.has_head,
                           ", but the output layer's weight is ", shapes.has_head ? "stored" : "missing"));
  refuse_args(args, problems);
  if (problems.empty()) problems = config.problems();
  refuse_problems(problems);
  return config;
}

}  // namespace mtl
