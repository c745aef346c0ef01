#include "ckpt/hf_rotary.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

using Scaling = RotaryOptions::Scaling;

/// Returns the object under `key`, or nullptr if the value is absent, null or an empty object.
const Json* find_object(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return nullptr;
  if (!value->is_object()) fail(Exit::bad_data, key, ": expected an object");
  return value->as_object().empty() ? nullptr : value;
}

/// Reads rope_parameters or rope_scaling, together with the older top-level keys.
class RotaryReader {
 public:
  RotaryReader(const Json& hf_config, const HfRotary& family, const GptConfig& config,
               std::vector<std::string>& problems)
      : json_(hf_config), family_(family), config_(config), problems_(problems) {}

  RotaryOptions read(const char* key, const Json& parameters) {
    RotaryOptions rotary;
    const bool nested = std::any_of(parameters.as_object().begin(), parameters.as_object().end(),
                                    [](const auto& item) { return item.second.is_object(); });
    if (nested) {
      problems_.push_back(cat(key, " differs between layers, which is not supported"));
      return rotary;
    }
    rotary.base = number(key, parameters, "rope_theta", family_.base_key, 10000);
    rotary.percent =
        number(key, parameters, "partial_rotary_factor",
               family_.percent_key == nullptr ? "partial_rotary_factor" : family_.percent_key, family_.percent);
    if (family_.percent_key == nullptr && rotary.percent != 1)
      problems_.push_back(cat("partial_rotary_factor is ", rotary.percent, "; these models rotate whole heads"));
    const std::string type = parameters.string_or("rope_type", parameters.string_or("type", "default"));
    if (type == "default") return rotary;
    if (type != "linear" && type != "llama3") {
      problems_.push_back(cat(key, ": rope_type '", type, "' is not supported; default, linear and llama3 are"));
      return rotary;
    }
    rotary.scaling = type == "linear" ? Scaling::linear : Scaling::llama3;
    rotary.factor = required_number(key, parameters, "factor");
    if (rotary.scaling == Scaling::linear) return rotary;
    rotary.low_freq_factor = required_number(key, parameters, "low_freq_factor");
    rotary.high_freq_factor = required_number(key, parameters, "high_freq_factor");
    constexpr const char* kOriginal = "original_max_position_embeddings";
    rotary.original_positions = json_.int_or(kOriginal, parameters.int_or(kOriginal, config_.max_positions));
    return rotary;
  }

 private:
  /// Returns the value of `key` in `parameters`. If it is absent, returns the value of `top_key` at the top level; if
  /// both are absent, `fallback`. Adds a problem if both keys exist and differ.
  double number(const char* where, const Json& parameters, const char* key, const char* top_key, double fallback) {
    const double inside = parameters.number_or(key, json_.number_or(top_key, fallback));
    if (const double top = json_.number_or(top_key, inside); top != inside)
      problems_.push_back(cat(where, ".", key, " is ", inside, ", but ", top_key, " is ", top));
    return inside;
  }

  double required_number(const char* where, const Json& parameters, const char* key) {
    if (const Json* value = parameters.find(key); value != nullptr && value->is_number()) return value->as_number();
    problems_.push_back(cat(where, " has no ", key));
    return 1;
  }

  const Json& json_;
  const HfRotary& family_;
  const GptConfig& config_;
  std::vector<std::string>& problems_;
};

/// Returns the first layer with a window, or `layers` if no layer has one. Returns empty if a later layer has no
/// window, or if the list does not have exactly one entry per layer.
std::optional<std::int64_t> first_window_layer(const Json& layer_types, std::int64_t layers) {
  const Json::Array& types = layer_types.as_array();
  std::int64_t first = 0;
  while (first < std::ssize(types) && types[first].as_string() == "full_attention") ++first;
  const bool windows = std::all_of(types.begin() + first, types.end(),
                                   [](const Json& type) { return type.as_string() == "sliding_attention"; });
  return windows && std::ssize(types) == layers ? std::optional(first) : std::nullopt;
}

void set_window(GptConfig& config, std::int64_t window, std::int64_t first, std::vector<std::string>& problems) {
  if (window < 1) problems.push_back(cat("sliding_window is ", window, "; it must be at least 1"));
  if (first < 0) problems.push_back(cat("max_window_layers is ", first, "; it must be at least 0"));
  if (first >= config.num_layers) return;
  config.sliding_window = window;
  config.first_window_layer = first;
}

}  // namespace

void read_hf_rotary(const Json& hf_config, const HfRotary& family, GptConfig& config,
                    std::vector<std::string>& problems) {
  RotaryReader reader(hf_config, family, config, problems);
  const Json* parameters = find_object(hf_config, "rope_parameters");
  const Json* scaling = find_object(hf_config, "rope_scaling");
  const Json empty = Json::object();
  if (parameters == nullptr && scaling == nullptr) {
    config.rotary = reader.read("rope_parameters", empty);
    return;
  }
  config.rotary =
      parameters != nullptr ? reader.read("rope_parameters", *parameters) : reader.read("rope_scaling", *scaling);
  if (parameters != nullptr && scaling != nullptr && !(reader.read("rope_scaling", *scaling) == config.rotary))
    problems.emplace_back("rope_scaling and rope_parameters differ");
}

void write_hf_rotary(const GptConfig& config, const HfRotary& family, Json& hf_config) {
  const RotaryOptions& rotary = config.rotary;
  Json scaling;
  if (rotary.scaling != Scaling::none) {
    scaling = Json::object({{"factor", rotary.factor}});
    if (rotary.scaling == Scaling::llama3) {
      scaling.set("high_freq_factor", rotary.high_freq_factor)
          .set("low_freq_factor", rotary.low_freq_factor)
          .set("original_max_position_embeddings", rotary.original_positions);
    }
    scaling.set("rope_type", rotary.scaling == Scaling::llama3 ? "llama3" : "linear");
  }
  Json parameters = scaling.is_null() ? Json::object({{"rope_type", "default"}}) : scaling;
  parameters.set("rope_theta", rotary.base);
  if (family.percent_key != nullptr) parameters.set("partial_rotary_factor", rotary.percent);
  hf_config.set("rope_parameters", std::move(parameters)).set("rope_scaling", std::move(scaling));
  hf_config.set(family.base_key, rotary.base);
  if (family.percent_key != nullptr) hf_config.set(family.percent_key, rotary.percent);
}

void read_hf_window(const Json& hf_config, HfWindow family, GptConfig& config, std::vector<std::string>& problems) {
  constexpr std::int64_t kDefaultWindow = 4096, kDefaultLayers = 28;
  if (family == HfWindow::none) return;
  const Json* window = hf_config.find("sliding_window");
  const bool has_window = window == nullptr || !window->is_null();
  const std::int64_t tokens = window == nullptr ? kDefaultWindow : hf_config.int_or("sliding_window", 0);
  if (family == HfWindow::everywhere) {
    if (has_window) set_window(config, tokens, 0, problems);
    return;
  }
  const bool uses_window = has_window && hf_config.bool_or("use_sliding_window", false);
  const Json* types = hf_config.find("layer_types");
  if (types == nullptr || types->is_null()) {
    if (uses_window) set_window(config, tokens, hf_config.int_or("max_window_layers", kDefaultLayers), problems);
    return;
  }
  const std::optional<std::int64_t> first = first_window_layer(*types, config.num_layers);
  if (!first) {
    problems.emplace_back(
        "layer_types must be full_attention for the first layers and sliding_attention for all others; anything else "
        "is not supported");
  } else if (uses_window) {
    set_window(config, tokens, *first, problems);
  } else if (*first < config.num_layers) {
    problems.emplace_back("layer_types has sliding_attention, but no sliding_window is in use");
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
  hf_config.set("use_sliding_window", windows).set("max_window_layers", first).set("layer_types", std::move(types));
}

}  // namespace mtl
