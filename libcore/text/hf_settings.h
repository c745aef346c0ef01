// Values in tokenizer_config.json and similar files, as represented by Python and transformers (text/hf_companions.h).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/find.h"
#include "base/json.h"
#include "text/added_tokens.h"

namespace mtl {

/// A token as transformers represents it: plain text, or an AddedToken, whose "normalized" may be unset.
struct HfToken : AddedToken {
  bool is_object = false;
  std::optional<bool> given_normalized{};  // instead of `normalized`
  std::string file{};

  bool is_normalized() const { return given_normalized.value_or(!special); }
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
template <class Value>
class OrderedMap {
 public:
  using Item = std::pair<std::string, Value>;

  const Value* find(std::string_view key) const {
    const Item* item = find_or_null(items_, key, &Item::first);
    return item == nullptr ? nullptr : &item->second;
  }
  void set(const std::string& key, Value value) {
    if (Item* item = find_or_null(items_, key, &Item::first))
      item->second = std::move(value);
    else
      items_.emplace_back(key, std::move(value));
  }
  std::optional<Value> take(std::string_view key) {
    const auto at = std::ranges::find(items_, key, &Item::first);
    if (at == items_.end()) return {};
    Value taken = std::move(at->second);
    items_.erase(at);
    return taken;
  }
  const std::vector<Item>& items() const { return items_; }
  /// Sorts the items by rank(key), and keeps the order of those with the same rank.
  template <class Rank>
  void sort_by(const Rank& rank) {
    std::ranges::stable_sort(items_, [&](const auto& a, const auto& b) { return rank(a.first) < rank(b.first); });
  }

 private:
  std::vector<Item> items_;
};
using HfSettings = OrderedMap<HfSetting>;

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
