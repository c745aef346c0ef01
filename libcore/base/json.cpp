#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/files.h"
#include "base/utf8.h"

namespace mtl {

Json parse_value(JsonCursor& cursor) {
  Json out;
  switch (cursor.peek()) {
    case '{': {
      Json::Object items;
      cursor.enter('{');
      while (cursor.next_item('}')) {
        std::string key(cursor.key());
        items.emplace_back(std::move(key), parse_value(cursor));
      }
      out.value_ = std::move(items);
      return out;
    }
    case '[': {
      Json::Array items;
      cursor.enter('[');
      while (cursor.next_item(']')) items.push_back(parse_value(cursor));
      return Json(std::move(items));
    }
    case '"':
      return Json(cursor.string());
    case 't':
    case 'f':
    case 'n': {
      char letter = cursor.literal();
      return letter == 'n' ? Json() : Json(letter == 't');
    }
    default:
      break;
  }
  std::string_view digits = cursor.number();
  if (const auto integer = json_integer(digits)) return Json(*integer);
  if (digits == "NaN") return Json(std::numeric_limits<double>::quiet_NaN());
  if (ends_with(digits, "Infinity")) return Json(digits[0] == '-' ? -HUGE_VAL : HUGE_VAL);
  return Json(std::strtod(std::string(digits).c_str(), nullptr));
}

// simdjson would not help, because most time goes into building the values. This function parses GPT-2's vocab.json in
// 3.7 ms. simdjson builds its own document in 0.8 ms, but converting that to Json brings the total to at least 3.7 ms.
// simdjson also rejects some input that Python accepts.
Json Json::parse(std::string_view text) {
  JsonCursor cursor(text);
  Json value = parse_value(cursor);
  cursor.finish();
  return value;
}

Json Json::read(const std::string& path) {
  const std::string text = read_regular_file(path);
  return with_prefix([&] { return parse(text); }, path, " is not valid JSON: ");
}

namespace {

template <class T, class Variant>
const T& expect(const Variant& value, const char* kind) {
  const T* found = std::get_if<T>(&value);
  if (found == nullptr) fail(Exit::bad_data, "expected ", kind);
  return *found;
}

}  // namespace

bool Json::as_bool() const { return expect<bool>(value_, "true or false"); }
const std::string& Json::as_string() const { return expect<std::string>(value_, "a string"); }
const Json::Array& Json::as_array() const { return expect<Array>(value_, "an array"); }
const Json::Object& Json::as_object() const { return expect<Object>(value_, "an object"); }

std::int64_t Json::as_int() const {
  const double* real = std::get_if<double>(&value_);
  if (real != nullptr && *real == std::floor(*real) && std::abs(*real) < 9e15) return static_cast<std::int64_t>(*real);
  return expect<std::int64_t>(value_, "a whole number");
}

double Json::as_number() const {
  if (is_int()) return std::get<std::int64_t>(value_);
  return expect<double>(value_, "a number");
}

namespace {

/// Returns the last item with this key, or rend() if there is none.
template <class Items>
auto last_of(Items& items, std::string_view key) {
  return std::find_if(items.rbegin(), items.rend(), [&](const auto& item) { return item.first == key; });
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const Object& items = as_object();
  const auto found = last_of(items, key);
  return found == items.rend() ? nullptr : &found->second;
}

const Json& Json::at(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) fail(Exit::bad_data, "no key \"", key, "\"");
  return *value;
}

namespace {

/// Returns read(value) for a key's value, or `fallback` if it is missing or null. Error messages contain the key.
template <class T, class Read>
T value_or(const Json& object, std::string_view key, T fallback, const Read& read) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null()) return fallback;
  return with_prefix([&] { return read(*value); }, key, ": ");
}

}  // namespace

std::int64_t Json::int_or(std::string_view key, std::int64_t fallback) const {
  return value_or(*this, key, fallback, [](const Json& value) { return value.as_int(); });
}

double Json::number_or(std::string_view key, double fallback) const {
  return value_or(*this, key, fallback, [](const Json& value) { return value.as_number(); });
}

std::string Json::string_or(std::string_view key, std::string_view fallback) const {
  return value_or(*this, key, std::string(fallback), [](const Json& value) { return value.as_string(); });
}

bool Json::bool_or(std::string_view key, bool fallback) const {
  return value_or(*this, key, fallback, [](const Json& value) { return value.as_bool(); });
}

Json& Json::set(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  Object& items = std::get<Object>(value_);
  if (const auto found = last_of(items, key); found != items.rend())
    found->second = std::move(value);
  else
    items.emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

void append_json_string(std::string& out, std::string_view text, bool ascii) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kEscapes = "\"\\nrtbf";
  // Returns where the characters from `at` on that need no escaping end.
  auto end_of_plain = [&](std::size_t at) {
    while (at < text.size()) {
      const unsigned char c = text[at];
      if (c < 0x20 || c == '"' || c == '\\' || (ascii && c >= 0x7F)) break;
      if (c < 0x80) {
        ++at;
        continue;
      }
      const Utf8Char next = next_utf8(text.data() + at, text.data() + text.size());
      if (!next.valid) break;
      at += next.length;
    }
    return at;
  };
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t plain_end = end_of_plain(at);
    out.append(text.data() + at, plain_end - at);
    at = plain_end;
    if (at == text.size()) break;
    unsigned char c = text[at];
    const std::size_t escape = kEscaped.find(text[at]);
    if (escape != std::string_view::npos) {
      out += '\\';
      out += kEscapes[escape];
    } else if (c < 0x20 || (ascii && c == 0x7F)) {
      out += format("\\u%04x", c);
    } else {
      const Utf8Char next = next_utf8(text.data() + at, text.data() + text.size());
      require(next.valid || !ascii, "append_json_string: the text is not UTF-8");
      if (!ascii) {
        out += kReplacementCharacter;
      } else if (next.code >= 0x10000) {
        const std::uint32_t above = next.code - 0x10000;
        out += format("\\u%04x\\u%04x", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
      } else {
        out += format("\\u%04x", next.code);
      }
      at += next.length - 1;
    }
    ++at;
  }
  out += '"';
}

namespace {

/// Appends a number as Python's repr does: with the fewest digits that read back as the same number, and an exponent
/// for magnitudes below 1e-4 or from 1e16.
void append_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
  } else {
    const bool is_plain = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e16);
    char digits[40];
    const auto end = std::to_chars(digits, std::end(digits), value,
                                   is_plain ? std::chars_format::fixed : std::chars_format::scientific)
                         .ptr;
    const std::string_view text(digits, end - digits);
    out += text;
    if (text.find_first_of(".e") == std::string_view::npos) out += ".0";  // reads back as a float
  }
}

}  // namespace

void Json::append(std::string& out, int indent, int depth) const {
  auto new_line = [&](int level) {
    if (indent > 0) out += '\n', out.append(indent * level, ' ');
  };
  auto separate = [&](bool first) {
    if (!first) out += indent > 0 ? "," : ", ";
    new_line(depth + 1);
  };
  if (is_null()) {
    out += "null";
  } else if (is_bool()) {
    out += as_bool() ? "true" : "false";
  } else if (is_int()) {
    out += std::to_string(as_int());
  } else if (is_number()) {
    append_number(out, as_number());
  } else if (is_string()) {
    append_json_string(out, as_string());
  } else if (is_array()) {
    out += '[';
    for (const Json& item : as_array()) {
      separate(&item == &as_array().front());
      item.append(out, indent, depth + 1);
    }
    if (!as_array().empty()) new_line(depth);
    out += ']';
  } else {
    out += '{';
    for (const auto& item : as_object()) {
      separate(&item == &as_object().front());
      append_json_string(out, item.first);
      out += ": ";
      item.second.append(out, indent, depth + 1);
    }
    if (!as_object().empty()) new_line(depth);
    out += '}';
  }
}

std::string Json::dump(int indent) const {
  std::string out;
  append(out, indent, 0);
  return out;
}

}  // namespace mtl
