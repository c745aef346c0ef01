// The value of a flag or configuration line: a variable that is parsed from words, checked against bounds, and written
// back as words.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/str.h"

namespace mtl {

/// The interval a setting accepts.
struct Bounds {
  double least = -INFINITY, most = INFINITY;
  bool excludes_least = false, excludes_most = false;

  /// Returns an error message such as "must be at least 0 and below 1" if `number` is out of bounds, otherwise "".
  /// Infinities and NaN are never in bounds.
  std::string objection(double number) const;
  /// Returns the interval as text, such as "[0 1)".
  std::string interval() const;
};

struct Setting {
  /// A bool is a switch. An optional has no value until set. A vector takes any number of words.
  using Variable = std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*,
                                std::optional<double>*, std::optional<std::string>*, std::vector<std::string>*>;
  Variable variable;
  std::vector<std::string> choices = {};  // allowed values for a text; empty: any
  Bounds bounds = {};                     // allowed interval of a number
  bool is_inverted = false;               // true: the switch sets its variable to false

  /// Returns "switch", "whole", "real", "text" or "list".
  std::string_view kind() const;
  bool is_number() const { return kind() == "whole" || kind() == "real"; }
  /// Returns an error message such as "is not a whole number" if `word` is not a valid value, otherwise "".
  std::string objection(const std::string& word) const;
  /// Sets the variable. objection() must be empty for each word, and there must be exactly one word unless the variable
  /// is a list.
  void store(const std::vector<std::string>& words) const;
  /// Returns the value's words, such as "768" or "true", and none for an empty optional.
  std::vector<std::string> words() const;
  std::string text() const { return join(words(), " "); }
  /// Returns false if text() is empty or any of its words has an objection(). As a default, that means "no value".
  bool has_value() const;
};

}  // namespace mtl
