// JSON by the rules of Python's json module, which reads and writes most JSON files of this field.
//
// Reading validates everything, including unused values. As in Python: NaN, Infinity and -Infinity are numbers,
// integers have no limit (beyond 64 bits they become doubles here), a lone surrogate escape is legal (callers check
// has_lone_surrogate), the last of duplicate keys counts, control characters in strings are errors. Input must be
// UTF-8. Nesting deeper than 1000 is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_cursor.h"

namespace mtl {

/// A JSON value. Objects keep the order of their keys.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(std::int64_t value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(std::uint64_t value) : value_(static_cast<std::int64_t>(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  static Json object(std::initializer_list<std::pair<std::string, Json>> items = {}) {
    Json out;
    out.value_ = Object(items);
    return out;
  }
  static Json array() { return Json(Array{}); }

  /// Throws Error(bad_data) "byte N: what".
  static Json parse(std::string_view text);
  /// Reads and parses a file; errors name the file.
  static Json read(const std::string& path);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  /// Each throws Error(bad_data) if the value is of another kind. as_int() also accepts whole doubles of magnitude
  /// below 9e15.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_number() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  /// Returns the value of a key (of its last occurrence), or nullptr. Throws Error(bad_data) if this is not an object.
  const Json* find(std::string_view key) const;
  /// Returns the value of a key; throws Error(bad_data) "no key ..." if it is missing.
  const Json& at(std::string_view key) const;
  /// Return the value of a key, or `fallback` if it is missing or null. An error names the key.
  std::int64_t int_or(std::string_view key, std::int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;
  bool bool_or(std::string_view key, bool fallback) const;

  /// Adds or replaces a key of an object (null becomes an object).
  Json& set(std::string key, Json value);
  /// Appends to an array (null becomes an array).
  Json& push(Json value);

  /// With indent 0, writes one line with ", " and ": " like Python's json.dumps; otherwise one item per line.
  /// Writes doubles as Python's repr does. Text stays UTF-8; invalid bytes become U+FFFD.
  std::string dump(int indent = 0) const;

 private:
  friend Json parse_value(JsonCursor& cursor);
  void append(std::string& out, int indent, int depth) const;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

/// Appends `text` as a JSON string; invalid UTF-8 becomes U+FFFD. With `ascii`, escapes all but ASCII; `text` must then
/// be UTF-8.
void append_json_string(std::string& out, std::string_view text, bool ascii = false);

}  // namespace mtl
