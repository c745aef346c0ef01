#include "models/hf_values.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace mtl {

namespace {

constexpr std::size_t kLongestShown = 80;  // bytes of a value in a message

std::string shown(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= kLongestShown ? text
                                      : cat(value.is_array() ? "a list" : "a value", " of ", text.size(), " bytes");
}

double finite_number(const Json& value) {
  const double number = value.as_number();
  if (!std::isfinite(number)) fail(Exit::bad_data, "not finite");
  return number;
}

}  // namespace

void HfValues::add_problem(const char* key, const std::string& what) const {
  report(cat(name(key), " is ", shown(*find(key)), what));
}

void HfValues::report(std::string problem) const {
  if (std::ranges::find(problems_, problem) == problems_.end()) problems_.push_back(std::move(problem));
}

template <class Value, class Read>
Value HfValues::read(const char* key, Value fallback, const char* needed, const Read& read) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  try {
    return read(*value);
  } catch (const Error&) {
    add_problem(key, cat("; it must be ", needed));
    return fallback;
  }
}

std::int64_t HfValues::integer(const char* key, std::int64_t fallback) const {
  return read(key, fallback, "a whole number", [](const Json& value) { return value.as_int(); });
}

double HfValues::number(const char* key, double fallback) const {
  return read(key, fallback, "a number", finite_number);
}

bool HfValues::boolean(const char* key, bool fallback) const {
  return read(key, fallback, "true or false", [](const Json& value) { return value.as_bool(); });
}

std::string HfValues::text(const char* key, const char* fallback) const {
  return read(key, std::string(fallback), "a name in quotes", [](const Json& value) { return value.as_string(); });
}

}  // namespace mtl
