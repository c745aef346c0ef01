// Values in tokenizer_config.json and similar files, as represented by Python and transformers (text/hf_companions.h).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace mtl {

/// A token as transformers represents it: plain text, or an AddedToken, whose "normalized" may be unset.
struct HfToken {
  std::string content;
  bool is_object = false;
  bool lstrip = false, rstrip = false, single_word = false, special = false;
  std::optional<bool> normalized{};
  std::string file{};

  bool is_normalized() const { return normalized.value_or(!special); }
  bool operator==(const HfToken& other) const {
    return content == other.content && is_object == other.is_object &&
           (!is_object || (lstrip == other.lstrip && rstrip == other.rstrip && single_word == other.single_word &&
                           special == other.special && is_normalized() == other.is_normalized()));
  }
};

/// A value, and the name of the file that contains it.
struct HfSetting {
  Json value;
  const char* file;
};

/// Like a Python dict: keys are in insertion order, and a key that is set again keeps its position.
class HfSettings {
 public:
  const HfSetting* find(std::string_view key) const {
    const auto at = std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.first == key; });
    return at == items_.end() ? nullptr : &at->second;
  }
  void set(const std::string& key, HfSetting setting) {
    for (auto& [name, old] : items_) {
      if (name == key) {
        old = std::move(setting);
        return;
      }
    }
    items_.emplace_back(key, std::move(setting));
  }
  std::optional<HfSetting> take(std::string_view key) {
    const auto at = std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item.first == key; });
    if (at == items_.end()) return {};
    HfSetting taken = std::move(at->second);
    items_.erase(at);
    return taken;
  }
  const std::vector<std::pair<std::string, HfSetting>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, HfSetting>> items_;
};

/// Returns true if Python's `if` treats the value as false.
inline bool is_falsy(const Json& value) {
  if (value.is_array()) return value.as_array().empty();
  if (value.is_object()) return value.as_object().empty();
  if (value.is_string()) return value.as_string().empty();
  if (value.is_bool()) return !value.as_bool();
  return value.is_null() || (value.is_number() && value.as_number() == 0);
}

inline bool is_added_token(const Json& value) {
  return value.is_object() && value.string_or("__type", "") == "AddedToken";
}

}  // namespace mtl
