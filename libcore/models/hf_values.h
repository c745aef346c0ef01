// Typed values from config.json. Part of the implementation of hf_config.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace mtl {

/// Reads values of an object in config.json. Each function returns `fallback` if the key is absent. If the value has
/// another type (null included) or is NaN or infinite, it also returns `fallback`, and adds a problem that shows the
/// value. transformers does not accept such values either.
class HfValues {
 public:
  /// `prefix` precedes keys in messages: "rope_parameters." for the object under that key, "" for the whole file.
  HfValues(const Json& object, std::string prefix, std::vector<std::string>& problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}
  /// Values of `object`, whose problems join those of `outer`.
  HfValues(const Json& object, std::string prefix, const HfValues& outer)
      : HfValues(object, std::move(prefix), outer.problems_) {}

  std::int64_t integer(const char* key, std::int64_t fallback) const;
  double number(const char* key, double fallback) const;
  bool boolean(const char* key, bool fallback) const;
  std::string text(const char* key, const char* fallback) const;

  const Json* find(const char* key) const { return object_.find(key); }
  /// Returns the key with its prefix, for messages.
  std::string name(const char* key) const { return prefix_ + key; }
  /// Adds the problem "KEY is VALUE" + `what`. The key must exist.
  void add_problem(const char* key, const std::string& what) const;
  /// Adds a problem, unless it has been reported before.
  void report(std::string problem) const;
  std::size_t problem_count() const { return problems_.size(); }

 private:
  template <class Value, class Read>
  Value read(const char* key, Value fallback, const char* needed, const Read& read) const;

  const Json& object_;
  std::string prefix_;
  std::vector<std::string>& problems_;
};

}  // namespace mtl
