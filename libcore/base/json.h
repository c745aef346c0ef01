// JSON values, parsed and written by the rules of Python's json module, because that module reads and writes most JSON
// files in this field.
//
// The parser validates the whole input, including values that are never used. As in Python: NaN, Infinity and -Infinity
// are numbers. Integers may have any size; here, integers that do not fit into 64 bits become doubles. An escaped lone
// surrogate is legal; callers check with has_lone_surrogate(). If a key occurs several times, the last occurrence
// counts. Control characters in strings are errors. The input must be UTF-8. Nesting deeper than 1000 levels is an
// error.
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

  /// Parses a text. Throws Error(bad_data) "byte N: what".
  static Json parse(std::string_view text);
  /// Reads and parses a file. Error messages contain the file name.
  static Json read(const std::string& path);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  /// Each of these functions throws Error(bad_data) if the value is of another kind. as_number() also accepts integers.
  /// as_int() also accepts doubles with an integral value and a magnitude below 9e15.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_number() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  /// Returns the value of a key, or nullptr if the key is missing. If the key occurs several times, the last occurrence
  /// counts. Throws Error(bad_data) if this value is not an object.
  const Json* find(std::string_view key) const;
  /// Like find(), but throws Error(bad_data) "no key ..." if the key is missing.
  const Json& at(std::string_view key) const;
  /// Return the value of a key, or `fallback` if the key is missing or its value is null. Error messages contain the
  /// key.
  std::int64_t int_or(std::string_view key, std::int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;
  bool bool_or(std::string_view key, bool fallback) const;

  /// Sets the value of a key, which is added if missing. Requires an object, or null, which becomes an object.
  Json& set(std::string key, Json value);
  /// Appends a value. Requires an array, or null, which becomes an array.
  Json& push(Json value);

  /// Returns the value as text. If `indent` is 0, the text is one line with ", " and ": " as separators, like that of
  /// Python's json.dumps; otherwise each item has its own line. Doubles are written as Python's repr does. Strings stay
  /// UTF-8; invalid bytes become U+FFFD.
  std::string dump(int indent = 0) const;

 private:
  friend Json parse_value(JsonCursor& cursor);
  void append(std::string& out, int indent, int depth) const;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

/// Appends `text` as a JSON string. Invalid UTF-8 becomes U+FFFD. With `ascii`, escapes all non-ASCII characters, and
/// throws Error(failure) unless `text` is valid UTF-8.
void append_json_string(std::string& out, std::string_view text, bool ascii = false);

}  // namespace mtl
