// JSON values, parsed and written like Python's json module, because that module reads and writes most JSON in this
// field.
//
// The parser validates the entire input, even unused values. As in Python:
//
// - NaN, Infinity and -Infinity are numbers.
// - Integers may have any size. Those that do not fit into 64 bits become doubles here.
// - An escaped lone surrogate is legal. Callers check with has_lone_surrogate().
// - If a key occurs several times, the last one wins.
// - Control characters in strings are errors.
//
// The input must be UTF-8. Nesting deeper than 1000 levels is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_cursor.h"

namespace mtl {

/// A JSON value. Objects keep their key order.
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
  /// Like a parsed integer, a value that does not fit into std::int64_t becomes a double.
  Json(std::uint64_t value) {
    if (value <= INT64_MAX)
      value_ = static_cast<std::int64_t>(value);
    else
      value_ = static_cast<double>(value);
  }
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

  /// All of these throw Error(bad_data) for any other kind of value. as_number() also accepts integers, and as_int()
  /// accepts integral doubles with magnitudes below 9e15.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_number() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  const Object& as_object() const;

  /// Returns the value for a key, or nullptr if it is missing. If a key occurs several times, the last one wins. Throws
  /// Error(bad_data) if this value is not an object.
  const Json* find(std::string_view key) const;
  /// Like find(), but throws Error(bad_data) "no key ..." if the key is missing.
  const Json& at(std::string_view key) const;
  /// Return the value for a key, or `fallback` if it is missing or null. Error messages contain the key.
  std::int64_t int_or(std::string_view key, std::int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  std::string string_or(std::string_view key, std::string_view fallback) const;
  bool bool_or(std::string_view key, bool fallback) const;

  /// Sets or adds a key in this object; find() then returns the value. Null becomes an empty object first. No other
  /// kind of value is allowed.
  Json& set(std::string key, Json value);
  /// Appends a value to this array. Null becomes an empty array first. No other kind of value is allowed.
  Json& push(Json value);

  /// Returns the value as text: with `indent` 0 as a single line, separated by ", " and ": " like Python's json.dumps;
  /// otherwise with one item per line. Doubles are written like Python's repr. Strings stay UTF-8; invalid bytes become
  /// U+FFFD.
  std::string dump(int indent = 0) const;
  /// True if both values have the same text. So 1 and 1.0 differ, and NaN equals itself.
  bool operator==(const Json& other) const { return dump() == other.dump(); }

 private:
  friend Json parse_value(JsonCursor& cursor);
  void append(std::string& out, int indent, int depth) const;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

/// Appends `text` as a JSON string. Invalid UTF-8 becomes U+FFFD. With `ascii`, escapes all non-ASCII characters, and
/// throws Error(failure) unless `text` is valid UTF-8.
void append_json_string(std::string& out, std::string_view text, bool ascii = false);

}  // namespace mtl
