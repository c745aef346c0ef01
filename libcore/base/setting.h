// A variable that is parsed from words, checked against bounds, and written as words: the value of a flag or of a line
// in a configuration file.
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

/// The interval of numbers that a setting accepts.
struct Bounds {
  double least = -INFINITY, most = INFINITY;
  bool excludes_least = false, excludes_most = false;

  /// Returns what is wrong with this number, such as "must be at least 0 and below 1"; empty if it is within the
  /// bounds. Infinities and NaN are never valid.
  std::string objection(double number) const;
  /// Returns text such as "[0 1)".
  std::string interval() const;
};

struct Setting {
  /// A bool is a switch; an optional has no value until it is set; a vector takes any number of words.
  using Variable = std::variant<bool*, std::int64_t*, double*, std::string*, std::optional<std::int64_t>*,
                                std::optional<double>*, std::optional<std::string>*, std::vector<std::string>*>;
  Variable variable;
  std::vector<std::string> choices = {};  // of a text; empty: any
  Bounds bounds = {};                     // of a number
  bool is_inverted = false;               // a switch that sets its variable to false

  /// "switch", "whole", "real", "text" or "list".
  std::string_view kind() const;
  bool is_number() const { return kind() == "whole" || kind() == "real"; }
  /// Returns what is wrong with this word as a value, such as "is not a whole number"; empty if it is valid.
  std::string objection(const std::string& word) const;
  /// Sets the variable. Requires words for which objection() is empty, and exactly one unless the variable is a list.
  void store(const std::vector<std::string>& words) const;
  /// Returns the words of the value: "768", "true"; none for an empty optional.
  std::vector<std::string> words() const;
  std::string text() const { return join(words(), " "); }
  /// False if text() is empty or a word has an objection: such a default stands for no value.
  bool has_value() const;
};

}  // namespace mtl
