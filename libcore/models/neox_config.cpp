#include "models/neox_config.h"

#include <algorithm>

#include "base/files.h"
#include "base/find.h"
#include "base/printable.h"
#include "base/usage_error.h"

namespace mtl {

namespace {

/// A setting that changes the model in a way that mtl does not support, unless it has one of the values `harmless`,
/// which '|' separates.
struct RefusedSetting {
  const char* name;
  const char* harmless;
  const char* why;
};

constexpr RefusedSetting kRefused[] = {
    {"gpt_j_tied", "false", "a norm that attention and MLP share is not supported"},
    {"use_qk_layernorm", "false", "a norm of whole queries and keys is not supported"},
    {"use_mup", "false", "scales of maximal update parametrization are not supported"},
    {"sliding_window_width", "", "a window of attention in GPT-NeoX is not supported"},
    {"moe_num_experts", "1", "mixtures of experts are not supported"},
    {"rope_scaling", "", "scaled rotary positions are not supported"},
    {"num_experts", "1", "mixtures of experts are not supported"},
    {"num_unique_layers", "", "layers that share parameters are not supported"},
    {"opt_pos_emb_offset", "0", "an offset of learned positions (OPT's) is not supported"},
    {"apply_residual_connection_post_layernorm", "false", "residuals of normalized values are not supported"},
    {"sparsity", "none", "sparse attention is not supported"},
    {"geglu", "false", "the name of old releases is not supported; use activation: geglu"},
    {"gptj_residual", "false", "the name of old releases is not supported; use gpt_j_residual"},
    {"openai_gelu", "false", "the name of old releases is not supported; use bias_gelu_fusion: true for the tanh form"},
    {"train_impl", "normal|dpo|kto|reinforce", "a reward model's head is not supported"}};

constexpr std::string_view kAccepted[] = {
#include "models/neox_keys.inc"
};

/// The settings, read as values. A value of an unexpected kind counts as absent, and adds a problem.
class Settings {
 public:
  Settings(const NeoxSettings& settings, std::vector<std::string>& problems)
      : settings_(settings), problems_(problems) {}

  const YamlSetting* find(const char* name) const {
    const YamlSetting* setting = find_or_null(settings_, name);
    if (setting == nullptr || setting->is_quoted || setting->is_nested) return setting;
    const std::string& text = setting->text;
    return text.empty() || text == "null" || text == "~" || text == "None" ? nullptr : setting;
  }
  std::optional<std::int64_t> integer(const char* name) const {
    return read<std::int64_t>(name, "an integer from 0 to 2147483648", [](const std::string& text) {
      const std::optional<std::int64_t> value = parse_int(text);
      return value && *value >= 0 && *value <= std::int64_t{1} << 31 ? value : std::nullopt;
    });
  }
  double number_or(const char* name, double fallback) const {
    return read<double>(name, "a number", parse_float).value_or(fallback);
  }
  bool bool_or(const char* name, bool fallback) const {
    const auto parse = [](const std::string& text) -> std::optional<bool> {
      const std::string word = lowered(text);
      if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
      if (word == "false" || word == "no" || word == "off" || word == "0") return false;
      return std::nullopt;
    };
    return read<bool>(name, "true or false", parse).value_or(fallback);
  }
  std::string text_or(const char* name, const char* fallback) const {
    const YamlSetting* setting = find(name);
    return setting == nullptr ? fallback : setting->text;
  }

 private:
  template <class T, class Parse>
  std::optional<T> read(const char* name, const char* expected, const Parse& parse) const {
    const YamlSetting* setting = find(name);
    if (setting == nullptr) return std::nullopt;
    const std::optional<T> value = parse(setting->text);
    if (!value)
      problems_.push_back(
          cat("setting ", name, " is '", printable_text(setting->text.substr(0, 40)), "', but must be ", expected));
    return value;
  }

  const NeoxSettings& settings_;
  std::vector<std::string>& problems_;
};

/// True if the run's configuration was found, and not only the few arguments in the model's file.
bool states_model(const Settings& settings) {
  for (const char* name : {"pos_emb", "norm", "gpt_j_residual", "seq_length", "hidden_dropout", "attention_dropout"}) {
    if (settings.find(name) != nullptr) return true;
  }
  return false;
}

/// Adds a problem if a setting differs from `size`, which the tensors show.
void expect_size(const Settings& settings, const char* name, std::int64_t size, std::vector<std::string>& problems) {
  const std::optional<std::int64_t> value = settings.integer(name);
  if (value && *value != size)
    problems.push_back(cat("setting ", name, " is ", *value, ", but the tensors have ", size));
}

void refuse_settings(const Settings& settings, std::vector<std::string>& problems) {
  for (const RefusedSetting& refused : kRefused) {
    const YamlSetting* setting = settings.find(refused.name);
    if (setting == nullptr) continue;
    const auto harmless = split(refused.harmless, '|');
    if (std::ranges::find(harmless, setting->text) != harmless.end()) continue;
    if (std::string_view(refused.harmless) == "false" && !settings.bool_or(refused.name, false)) continue;
    problems.push_back(
        cat("setting ", refused.name, " is '", printable_text(setting->text.substr(0, 40)), "'; ", refused.why));
  }
  // attention_config lists the kinds of the layers' attention: [[["global"], 44]].
  std::string word;
  for (char c : settings.text_or("attention_config", "") + " ") {
    if ((c >= 'a' && c <= 'z') || c == '_') {
      word += c;
      continue;
    }
    if (!word.empty() && word != "global" && word != "flash" && word != "all")
      problems.push_back(cat("setting attention_config has layers of kind '", word, "', which is not supported"));
    word.clear();
  }
}

/// Returns the names of the settings that mtl does not know, separated by commas. NULL ones count, too.
std::string unknown_settings(const NeoxSettings& read) {
  constexpr std::size_t kMostShown = 20;
  std::vector<std::string> names;
  for (const auto& [name, setting] : read) {
    const auto is_name = [&name = name](std::string_view known) { return known == name; };
    const bool is_refused = std::ranges::any_of(kRefused, is_name, &RefusedSetting::name);
    if (!is_refused && std::ranges::none_of(kAccepted, is_name)) names.push_back(printable_text(name.substr(0, 60)));
  }
  return join_first(std::move(names), kMostShown);
}

void set_activation(const Settings& settings, const NeoxShapes& shapes, GptConfig& config,
                    std::vector<std::string>& problems, std::vector<std::string>& notes) {
  if (shapes.has_gate_matrix && states_model(settings) && settings.find("activation") == nullptr)
    notes.push_back(
        "the configs do not state the activation of the gated MLP; mtl assumes silu, as GPT-NeoX's converter does, but "
        "GPT-NeoX trains with gelu then: add activation: gelu or silu");
  std::string name = settings.text_or("activation", shapes.has_gate_matrix ? "silu" : "gelu");
  const bool is_glu = name == "swiglu" || name == "geglu" || name == "reglu";
  config.gated_mlp = is_glu || shapes.has_gate_matrix;
  if (name == "swiglu" || name == "silu" || name == "swish")
    config.activation = Activation::silu;
  else if (name == "relu" || name == "reglu")
    config.activation = Activation::relu;
  else if (name == "gelu" || name == "geglu")
    config.activation =
        name == "gelu" && settings.bool_or("bias_gelu_fusion", false) ? Activation::gelu_tanh : Activation::gelu_erf;
  else
    problems.push_back(cat("setting activation is '", printable_text(name), "', which is not supported"));
  config.ffn_hidden_size = shapes.down_columns;
  const std::int64_t expected = config.ffn_hidden_size * (config.gated_mlp && !shapes.has_gate_matrix ? 2 : 1);
  if (shapes.common.up_rows != expected)
    problems.push_back(cat("the MLP's first linear has ", shapes.common.up_rows,
                           " outputs, but the setting activation, '", printable_text(name), "', needs ", expected));
}

void set_norm(const Settings& settings, const NeoxShapes& shapes, GptConfig& config,
              std::vector<std::string>& problems) {
  const std::string name = settings.text_or("norm", shapes.common.has_norm_bias ? "layernorm" : "rmsnorm");
  const bool is_rms = name == "rmsnorm" || name == "te_rmsnorm";
  if (!is_rms && name != "layernorm" && name != "te_layernorm")
    problems.push_back(cat("setting norm is '", printable_text(name), "', which is not supported"));
  config.norm = is_rms ? Norm::rmsnorm : Norm::layernorm;
  config.norm_eps = settings.number_or(is_rms ? "rms_norm_epsilon" : "layernorm_epsilon", is_rms ? 1e-8 : 1e-5);
  if (!(config.norm_eps > 0 && config.norm_eps < 1))
    problems.push_back(cat("the norms' epsilon is ", config.norm_eps, ", but must be above 0 and below 1"));
  if (is_rms == shapes.common.has_norm_bias)
    problems.push_back(cat("setting norm is '", printable_text(name), "', but the norms have ",
                           shapes.common.has_norm_bias ? "biases" : "no biases"));
}

void set_positions(const Settings& settings, const NeoxShapes& shapes, GptConfig& config,
                   std::vector<std::string>& problems) {
  const std::string kind = settings.text_or("pos_emb", shapes.common.positions > 0 ? "learned" : "rotary");
  if (kind == "learned" && shapes.common.positions > 0) {
    config.max_positions = shapes.common.positions;
    return expect_size(settings, "max_position_embeddings", config.max_positions, problems);
  }
  if (kind != "rotary")
    problems.push_back(cat("setting pos_emb is '", printable_text(kind), "', which ",
                           kind == "learned" ? "the tensors do not have" : "is not supported"));
  config.position_embedding = PositionEmbedding::rotary;
  config.rotary.percent = settings.number_or("rotary_pct", 1);
  config.rotary.base = settings.number_or("rotary_emb_base", 10000);
  config.max_positions =
      settings.integer("max_position_embeddings").value_or(settings.integer("seq_length").value_or(0));
  if (config.max_positions == 0)
    problems.push_back("no setting max_position_embeddings states the number of positions");
}

void set_heads(const Settings& settings, const NeoxShapes& shapes, const ModelSupplement& given, GptConfig& config,
               std::vector<std::string>& problems) {
  const std::optional<std::int64_t> heads = settings.integer("num_attention_heads");
  if (!heads && !given.num_attention_heads)
    throw UsageError("--num-attention-heads",
                     "is required, because neither the checkpoint's configs nor its args state the number of heads");
  config.num_heads = heads ? *heads : *given.num_attention_heads;
  if (config.num_heads <= 0 || config.hidden_size % config.num_heads != 0) {
    const std::string what = cat("does not divide the hidden size ", config.hidden_size, " of the checkpoint");
    if (!heads) throw UsageError(cat(given.heads_flag, " ", config.num_heads), what);
    problems.push_back(cat("setting num_attention_heads, ", config.num_heads, ", ", what));
    return;
  }
  config.head_dim = config.hidden_size / config.num_heads;
  config.num_query_groups = settings.integer("num_kv_heads").value_or(config.num_heads);
  if (config.num_query_groups == 0) config.num_query_groups = config.num_heads;
  if (shapes.qkv_rows != (config.num_heads + 2 * config.num_query_groups) * config.head_dim)
    problems.push_back(cat("the linear of queries, keys and values has ", shapes.qkv_rows,
                           " outputs, which do not fit ", config.num_heads, " heads and ", config.num_query_groups,
                           " groups"));
}

}  // namespace

NeoxSettings read_neox_settings(const std::vector<std::string>& files, const std::optional<PickleValue>& args) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  NeoxSettings out;
  for (const std::string& path : files) {
    with_where(path, [&] {
      if (!fs::is_regular_file(path) || fs::file_size(path) > kMostBytes)
        fail(Exit::bad_data, "the file is not a configuration of at most 1 MiB");
      for (auto& [name, setting] : parse_yaml_settings(read_regular_file(path)))
        out.insert_or_assign(name, std::move(setting));
    });
  }
  for (std::size_t i = 0; args && args->is(PickleKind::dict) && i < args->size(); ++i) {
    if (!args->key(i).is(PickleKind::text)) continue;
    const PickleValue value = args->value(i);
    std::string text;
    if (value.is(PickleKind::integer))
      text = cat(value.as_int());
    else if (value.is(PickleKind::text))
      text = value.as_text();
    else
      continue;
    out.try_emplace(std::string(args->key(i).as_text()), YamlSetting{.text = std::move(text)});
  }
  return out;
}

GptConfig neox_config(const NeoxSettings& read, const NeoxShapes& shapes, const ModelSupplement& given,
                      std::vector<std::string>& notes) {
  std::vector<std::string> problems;
  const Settings settings(read, problems);
  GptConfig config;
  config.num_layers = shapes.common.layers;
  config.hidden_size = shapes.common.hidden;
  config.vocab_size = given.vocab_size.value_or(shapes.common.vocabulary_rows);
  check_vocabulary(config.vocab_size, shapes.common.vocabulary_rows);
  expect_size(settings, "num_layers", config.num_layers, problems);
  expect_size(settings, "hidden_size", config.hidden_size, problems);
  if (!shapes.common.has_stripped_vocabulary)
    expect_size(settings, "padded_vocab_size", shapes.common.vocabulary_rows, problems);
  config.bias = shapes.common.bias;
  set_heads(settings, shapes, given, config, problems);
  set_activation(settings, shapes, config, problems, notes);
  set_norm(settings, shapes, config, problems);
  set_positions(settings, shapes, config, problems);
  config.parallel_residual = settings.bool_or("gpt_j_residual", false);
  config.init_std = settings.number_or("init_method_std", 0.02);
  if (!(config.init_std >= 0 && config.init_std < 1e3))
    problems.push_back(cat("setting init_method_std is ", config.init_std, ", but must be at least 0 and below 1000"));
  config.tied_embeddings = !shapes.common.has_head;
  if (settings.find("no_weight_tying") != nullptr &&
      settings.bool_or("no_weight_tying", false) != shapes.common.has_head)
    problems.push_back(cat("setting no_weight_tying is ", !shapes.common.has_head,
                           ", but the output layer's weight is ", shapes.common.has_head ? "stored" : "missing"));
  refuse_settings(settings, problems);
  if (problems.empty()) problems = config.problems();
  if (!problems.empty()) fail(Exit::bad_data, join(problems, "; "));
  if (!states_model(settings))
    notes.push_back(cat("the checkpoint has no configs/*.yml, in which GPT-NeoX states its model; mtl assumes ",
                        config.position_embedding == PositionEmbedding::rotary ? "rotary positions of whole heads with "
                                                                                 "base 10000, "
                                                                               : "",
                        "the exact form of GELU or SiLU, norms with GPT-NeoX's epsilon, and no parallel residual; copy "
                        "the .yml files of the run to configs to state these"));
  if (const std::string unknown = unknown_settings(read); !unknown.empty())
    notes.push_back(
        cat("the configs have settings that mtl does not know, and ignores (check their spelling): ", unknown));
  return config;
}

std::optional<ModelDropout> neox_dropout(const NeoxSettings& read) {
  std::vector<std::string> problems;
  const Settings settings(read, problems);
  if (!states_model(settings)) return std::nullopt;
  const double hidden = checked_dropout("setting hidden_dropout", settings.number_or("hidden_dropout", 0));
  const double attention = checked_dropout("setting attention_dropout", settings.number_or("attention_dropout", 0));
  if (!problems.empty()) fail(Exit::bad_data, join(problems, "; "));
  return ModelDropout{.hidden = hidden, .attention = attention, .embedding = hidden};
}

}  // namespace mtl
