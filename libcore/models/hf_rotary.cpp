#include "models/hf_rotary.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/str.h"
#include "models/hf_config.h"
#include "nn/rotary.h"

namespace mtl {

namespace {

using Scaling = RotaryOptions::Scaling;

constexpr const char* kOriginal = "original_max_position_embeddings";
const std::vector<std::string_view> kCommonKeys = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};

/// How transformers spells a scaling: the value of rope_type, and the keys that it reads besides kCommonKeys.
struct ScalingName {
  std::string_view hf;
  Scaling scaling;
  std::vector<std::string_view> keys;
};
const std::vector<ScalingName> kScalingNames = {
    {"default", Scaling::none, {}},
    {"linear", Scaling::linear, {"factor"}},
    {"llama3", Scaling::llama3, {"factor", kOriginal, "low_freq_factor", "high_freq_factor"}},
    {"yarn",
     Scaling::yarn,
     {"factor", kOriginal, "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}},
    {"longrope", Scaling::longrope, {"factor", kOriginal, "attention_factor", "short_factor", "long_factor"}},
    {"dynamic", Scaling::dynamic, {"factor"}}};

const ScalingName& name_of(Scaling scaling) {
  return *std::ranges::find(kScalingNames, scaling, &ScalingName::scaling);
}

/// Returns true if transformers reads this key for this scaling.
bool is_key_of(Scaling scaling, std::string_view key) {
  return std::ranges::count(kCommonKeys, key) + std::ranges::count(name_of(scaling).keys, key) > 0;
}

/// Returns the object under `key`, or nullptr if the value is absent, null, an empty object or not an object. The last
/// is a problem.
const Json* find_object(const HfValues& values, const char* key) {
  const Json* value = values.find(key);
  if (value == nullptr || value->is_null()) return nullptr;
  if (!value->is_object()) values.add_problem(key, "; it must be an object");
  return value->is_object() && !value->as_object().empty() ? value : nullptr;
}

/// Reads rope_parameters or rope_scaling, together with the older top-level keys.
class RotaryReader {
 public:
  RotaryReader(const HfValues& top, const HfRotary& family, const GptConfig& config)
      : top_(top), family_(family), config_(config) {}

  RotaryOptions read(const char* key, const Json& parameters) {
    RotaryOptions rotary;
    const HfValues values(parameters, cat(key, "."), top_);
    const bool nested =
        std::ranges::any_of(parameters.as_object(), [](const auto& item) { return item.second.is_object(); });
    if (nested) {
      top_.report(cat(key, " differs between layers, which mtl does not support"));
      return rotary;
    }
    rotary.base = number(values, "rope_theta", family_.base_key, 10000);
    const char* percent_key = family_.percent_key == nullptr ? "partial_rotary_factor" : family_.percent_key;
    rotary.percent = number(values, "partial_rotary_factor", percent_key, family_.percent);
    if (family_.percent_key == nullptr && rotary.percent != 1)
      top_.report(
          cat("partial_rotary_factor is ", rotary.percent, ", but mtl supports only 1 for models of this type"));
    const char* type_key = values.find("rope_type") != nullptr ? "rope_type" : "type";
    const std::size_t problems = top_.problem_count();
    const std::string type = values.text(type_key, "default");
    if (top_.problem_count() > problems) return rotary;
    const auto named = std::ranges::find(kScalingNames, type, &ScalingName::hf);
    if (named == std::end(kScalingNames)) {
      values.add_problem(type_key, cat(", but mtl supports only ", join(kScalingNames, ", ", &ScalingName::hf)));
      return rotary;
    }
    rotary.scaling = named->scaling;
    switch (rotary.scaling) {
      case Scaling::none:
        break;
      case Scaling::linear:
      case Scaling::dynamic:
        rotary.factor = required_number(key, values, "factor");
        break;
      case Scaling::llama3:
        read_llama3(key, values, rotary);
        break;
      case Scaling::yarn:
        read_yarn(key, values, rotary);
        break;
      case Scaling::longrope:
        read_longrope(key, values, rotary);
        break;
    }
    return rotary;
  }

 private:
  void read_llama3(const char* where, const HfValues& values, RotaryOptions& rotary) {
    rotary.factor = required_number(where, values, "factor");
    rotary.low_freq_factor = required_number(where, values, "low_freq_factor");
    rotary.high_freq_factor = required_number(where, values, "high_freq_factor");
    rotary.original_positions = original_positions(values);
  }

  void read_yarn(const char* where, const HfValues& values, RotaryOptions& rotary) {
    rotary.original_positions = original_positions(values);
    rotary.factor = is_null(values, "factor") ? ratio_of_positions(rotary) : required_number(where, values, "factor");
    const RotaryOptions defaults;  // transformers replaces null and 0, too
    rotary.beta_fast = nonzero_number(values, "beta_fast").value_or(defaults.beta_fast);
    rotary.beta_slow = nonzero_number(values, "beta_slow").value_or(defaults.beta_slow);
    rotary.round_pairs = values.boolean("truncate", true);
    const std::optional<double> mscale = nonzero_number(values, "mscale"),
                                all = nonzero_number(values, "mscale_all_dim");
    rotary.attention_factor = number_or_null(
        values, "attention_factor",
        mscale && all ? yarn_attention_factor(rotary.factor, *mscale, *all) : yarn_attention_factor(rotary.factor));
  }

  void read_longrope(const char* where, const HfValues& values, RotaryOptions& rotary) {
    rotary.original_positions = original_positions(values);
    rotary.short_factors = required_numbers(where, values, "short_factor");
    rotary.long_factors = required_numbers(where, values, "long_factor");
    rotary.factor = number_or_null(values, "factor", ratio_of_positions(rotary));
    rotary.attention_factor =
        number_or_null(values, "attention_factor", longrope_attention_factor(rotary.factor, rotary.original_positions));
  }

  /// Returns `fallback` if the value is absent or null.
  static double number_or_null(const HfValues& values, const char* key, double fallback) {
    return is_null(values, key) ? fallback : values.number(key, fallback);
  }

  std::vector<double> required_numbers(const char* where, const HfValues& values, const char* key) {
    const Json* list = values.find(key);
    if (list == nullptr) top_.report(cat(where, " has no ", key, "; add it"));
    if (list == nullptr) return {};
    const bool is_list =
        list->is_array() && std::ranges::all_of(list->as_array(), [](const Json& one) { return one.is_number(); });
    if (!is_list) values.add_problem(key, "; it must be a list of numbers");
    if (!is_list) return {};
    std::vector<double> out;
    for (const Json& one : list->as_array()) out.push_back(one.as_number());
    return out;
  }

  std::int64_t original_positions(const HfValues& values) {
    // A key at the top level, where Phi-3's configuration has it, takes priority in transformers.
    return top_.integer(kOriginal, values.integer(kOriginal, config_.max_positions));
  }

  /// Returns how much longer the model's sequences are than they originally were.
  double ratio_of_positions(const RotaryOptions& rotary) const {
    return static_cast<double>(config_.max_positions) / static_cast<double>(rotary.original_positions);
  }

  static bool is_null(const HfValues& values, const char* key) {
    return values.find(key) != nullptr && values.find(key)->is_null();
  }

  /// Returns empty if the value is absent, null or 0.
  static std::optional<double> nonzero_number(const HfValues& values, const char* key) {
    const double value = is_null(values, key) ? 0 : values.number(key, 0);
    return value == 0 ? std::nullopt : std::optional(value);
  }

  /// Returns the value of `key` in `values`. If it is absent, returns the value of `top_key` at the top level; if both
  /// are absent, `fallback`. Adds a problem if both keys exist and differ.
  double number(const HfValues& values, const char* key, const char* top_key, double fallback) {
    if (values.find(key) == nullptr) return top_.number(top_key, fallback);
    const double inside = values.number(key, fallback);
    if (top_.number(top_key, inside) != inside)
      top_.add_problem(top_key, cat(", but ", values.name(key), " is ", inside, "; remove one of them"));
    return inside;
  }

  double required_number(const char* where, const HfValues& values, const char* key) {
    if (values.find(key) != nullptr) return values.number(key, 1);
    top_.report(cat(where, " has no ", key, "; add it"));
    return 1;
  }

  const HfValues& top_;
  const HfRotary& family_;
  const GptConfig& config_;
};

/// Returns the first layer with a window, or `layers` if no layer has one. Returns empty if a later layer has no
/// window, or if the value is not a list with one of the two types per layer.
std::optional<std::int64_t> first_window_layer(const Json& layer_types, std::int64_t layers) {
  if (!layer_types.is_array()) return std::nullopt;
  const Json::Array& types = layer_types.as_array();
  auto is = [](const Json& type, const char* name) { return type.is_string() && type.as_string() == name; };
  std::int64_t first = 0;
  while (first < std::ssize(types) && is(types[first], "full_attention")) ++first;
  const bool windows =
      std::all_of(types.begin() + first, types.end(), [&](const Json& type) { return is(type, "sliding_attention"); });
  return windows && std::ssize(types) == layers ? std::optional(first) : std::nullopt;
}

/// Sets a window in the layers from `first`. An absent sliding_window has transformers' default.
void set_window(const HfValues& values, std::int64_t first, GptConfig& config) {
  constexpr std::int64_t kDefaultWindow = 4096;
  const std::size_t problems = values.problem_count();
  const std::int64_t window = values.integer("sliding_window", kDefaultWindow);
  if (window < 1 && values.problem_count() == problems) values.add_problem("sliding_window", "; it must be at least 1");
  if (first >= config.num_layers) return;
  config.sliding_window = window;
  config.first_window_layer = first;
}

/// Returns the first layer with a window if the family has no list of layer types.
std::int64_t default_first_layer(const HfValues& values, HfWindow family) {
  constexpr std::int64_t kDefaultLayers = 28;
  if (family != HfWindow::from_layer) return 0;
  const std::int64_t first = values.integer("max_window_layers", kDefaultLayers);
  if (first < 0) values.add_problem("max_window_layers", "; it must be at least 0");
  return first;
}

}  // namespace

void read_hf_rotary(const HfValues& values, const HfRotary& family, GptConfig& config) {
  RotaryReader reader(values, family, config);
  const Json* parameters = find_object(values, "rope_parameters");
  const Json* scaling = find_object(values, "rope_scaling");
  const Json empty = Json::object();
  config.rotary = parameters == nullptr && scaling != nullptr
                      ? reader.read("rope_scaling", *scaling)
                      : reader.read("rope_parameters", parameters != nullptr ? *parameters : empty);
  if (parameters != nullptr && scaling != nullptr && !(reader.read("rope_scaling", *scaling) == config.rotary))
    values.report("rope_scaling and rope_parameters differ; remove one of them");
}

namespace {

/// Returns null without scaling. A value that equals the default that transformers derives is left out, because other
/// programs know fewer keys.
Json scaling_to_hf(const GptConfig& config) {
  const RotaryOptions& rotary = config.rotary;
  if (rotary.scaling == Scaling::none) return {};
  Json out = Json::object({{"factor", rotary.factor}});
  if (rotary.scaling == Scaling::llama3)
    out.set("high_freq_factor", rotary.high_freq_factor).set("low_freq_factor", rotary.low_freq_factor);
  if (rotary.scaling == Scaling::yarn) {
    out.set("beta_fast", rotary.beta_fast).set("beta_slow", rotary.beta_slow);
    if (!rotary.round_pairs) out.set("truncate", false);
    if (rotary.attention_factor != yarn_attention_factor(rotary.factor))
      out.set("attention_factor", rotary.attention_factor);
  }
  if (rotary.scaling == Scaling::longrope) {
    out.set("short_factor", Json::Array(rotary.short_factors.begin(), rotary.short_factors.end()));
    out.set("long_factor", Json::Array(rotary.long_factors.begin(), rotary.long_factors.end()));
    if (rotary.attention_factor != longrope_attention_factor(rotary.factor, rotary.original_positions))
      out.set("attention_factor", rotary.attention_factor);
  }
  if (rotary.stretches_original()) out.set("original_max_position_embeddings", rotary.original_positions);
  return out.set("rope_type", std::string(name_of(rotary.scaling).hf));
}

}  // namespace

void write_hf_rotary(const GptConfig& config, const HfRotary& family, Json& hf_config) {
  const RotaryOptions& rotary = config.rotary;
  Json scaling = scaling_to_hf(config);
  Json parameters = scaling.is_null() ? Json::object({{"rope_type", "default"}}) : scaling;
  parameters.set("rope_theta", rotary.base);
  if (family.percent_key != nullptr) parameters.set("partial_rotary_factor", rotary.percent);
  hf_config.set("rope_parameters", std::move(parameters)).set("rope_scaling", std::move(scaling));
  hf_config.set(family.base_key, rotary.base);
  if (family.percent_key != nullptr) hf_config.set(family.percent_key, rotary.percent);
}

RotaryOptions rotary_from_hf(const Json& rope_parameters, const GptConfig& config, std::vector<std::string>& problems) {
  const Json nothing = Json::object();
  const HfValues top(nothing, "", problems);
  Json parameters = rope_parameters;
  if (parameters.find("rope_theta") == nullptr) parameters.set("rope_theta", config.rotary.base);
  RotaryOptions rotary = RotaryReader(top, {"rope_theta", "partial_rotary_factor", config.rotary.percent}, config)
                             .read("rope_parameters", parameters);
  rotary.interleaved = config.rotary.interleaved;
  for (const auto& [key, value] : rope_parameters.as_object()) {
    if (!is_key_of(rotary.scaling, key))
      top.report(cat("rope_parameters has ", key, ", which has no effect there; remove it"));
  }
  if (is_key_of(rotary.scaling, kOriginal) && rope_parameters.find(kOriginal) == nullptr)
    top.report(cat("rope_parameters has no ", kOriginal, "; add it"));
  return rotary;
}

void read_hf_window(const HfValues& values, HfWindow family, GptConfig& config) {
  const Json* window = values.find("sliding_window");
  bool has_window = family != HfWindow::none && (window == nullptr || !window->is_null());
  if (family == HfWindow::from_layer) has_window = values.boolean("use_sliding_window", false) && has_window;
  const Json* types = values.find("layer_types");
  if (types == nullptr || types->is_null()) {
    if (has_window) set_window(values, default_first_layer(values, family), config);
    return;
  }
  const std::optional<std::int64_t> first = first_window_layer(*types, config.num_layers);
  if (!first) {
    values.add_problem("layer_types", cat("; mtl supports only a list of ", config.num_layers,
                                          " types, full_attention for the first layers and sliding_attention for all "
                                          "later ones"));
  } else if (has_window) {
    set_window(values, *first, config);
  } else if (*first < config.num_layers) {
    values.report(
        "layer_types has sliding_attention, but sliding_window is null or not in use; set sliding_window, or remove "
        "layer_types");
  }
}

void write_hf_window(const GptConfig& config, HfWindow family, Json& hf_config) {
  if (family == HfWindow::none) return;
  const bool windows = config.sliding_window != 0;
  hf_config.set("sliding_window", windows ? Json(config.sliding_window) : Json());
  if (family == HfWindow::everywhere) return;
  const std::int64_t first = windows ? config.first_window_layer : config.num_layers;
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer)
    types.push(layer < first ? "full_attention" : "sliding_attention");
  hf_config.set("layer_types", std::move(types));
  if (family == HfWindow::from_layer) hf_config.set("use_sliding_window", windows).set("max_window_layers", first);
}

}  // namespace mtl
