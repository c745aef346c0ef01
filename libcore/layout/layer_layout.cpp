#include "layout/layer_layout.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr std::size_t kMostElements = 1 << 20;  // after all repetitions

/// If "*N" is at `at`, moves `at` behind it and returns N.
std::optional<std::size_t> take_factor(const std::string& text, std::size_t& at) {
  const std::size_t digits = at + 1, end = std::min(text.find_first_not_of("0123456789", digits), text.size());
  if (at >= text.size() || text[at] != '*' || digits >= text.size() || end == digits) return std::nullopt;
  const std::optional<std::int64_t> factor = parse_int(text.substr(digits, end - digits));
  at = end;
  return factor && *factor <= std::int64_t{kMostElements} ? static_cast<std::size_t>(*factor) : kMostElements + 1;
}

void append(std::string& out, const std::string& part, std::size_t times) {
  if (times > kMostElements || out.size() + part.size() * times > kMostElements)
    fail(Exit::usage, "has more than ", kMostElements, " elements; use smaller factors");
  for (std::size_t i = 0; i < times; ++i) out += part;
}

/// Replaces every "(...)*N".
std::string repeat_groups(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '(') {
      append(out, text.substr(at++, 1), 1);
      continue;
    }
    const std::size_t close = text.find(')', at);
    std::size_t after = close == std::string::npos ? text.size() : close + 1;
    const std::optional<std::size_t> factor = take_factor(text, after);
    if (!factor || close == at + 1)
      fail(Exit::usage, "has a '(' that does not begin a group such as (tt|)*3; groups cannot contain groups");
    append(out, text.substr(at + 1, close - at - 1), *factor);
    at = after;
  }
  return out;
}

/// Replaces every "x*N" for a single element x.
std::string repeat_elements(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string element = text.substr(at++, 1);
    append(out, element, take_factor(text, at).value_or(1));
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> parse_layer_layout(const std::string& text) {
  std::string given = text;
  std::erase(given, ',');
  const std::string elements = repeat_elements(repeat_groups(given));
  const std::size_t unknown = elements.find_first_not_of("EtL|");
  if (unknown != std::string::npos && elements[unknown] == 'm')
    fail(Exit::usage, "has layers for multi-token prediction (m), which this version does not support; leave them out");
  if (unknown != std::string::npos)
    fail(Exit::usage, "contains '", printable_text(elements.substr(unknown, 1)),
         "'; use E (embedding), t (layer), L (output layer), | between stages, and *N to repeat");
  const auto is_alone_at = [&](char element, std::size_t place) {
    return elements.find(element) == place && elements.rfind(element) == place;
  };
  if (!is_alone_at('E', 0)) fail(Exit::usage, "must begin with E, the embedding, and contain no other E");
  if (!is_alone_at('L', elements.size() - 1))
    fail(Exit::usage, "must end with L, the output layer, and contain no other L");
  std::vector<std::int64_t> counts;
  for (const std::string& place : split(elements, '|')) counts.push_back(std::count(place.begin(), place.end(), 't'));
  return counts;
}

std::string layer_layout_text(const std::vector<std::int64_t>& counts) {
  std::vector<std::string> places;
  for (std::int64_t count : counts) places.push_back(count == 0 ? "" : count == 1 ? "t" : cat("t*", count));
  return cat("E", join(places, "|"), "L");
}

}  // namespace mtl
