#include "base/setting.h"

#include <algorithm>

namespace mtl {

namespace {

template <class T>
constexpr bool is_optional = requires(T value) {
  value.has_value();
};

template <class T>
void store_words(const std::vector<std::string>& words, T& out) {
  if constexpr (is_optional<T>)
    store_words(words, out.emplace());
  else if constexpr (std::is_same_v<T, bool>)
    out = words[0] == "true";
  else if constexpr (std::is_same_v<T, std::int64_t>)
    out = *parse_int(words[0]);
  else if constexpr (std::is_same_v<T, double>)
    out = *parse_float(words[0]);
  else if constexpr (std::is_same_v<T, std::string>)
    out = words[0];
  else
    out = words;
}

template <class T>
std::vector<std::string> words_in(const T& value) {
  if constexpr (is_optional<T>)
    return value ? words_in(*value) : std::vector<std::string>();
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return value;
  else
    return {cat(value)};
}

}  // namespace

std::string Bounds::objection(double number) const {
  if (std::isnan(number)) return "must be a finite number";
  const bool is_low = excludes_least ? number <= least : number < least;
  const bool is_high = excludes_most ? number >= most : number > most;
  const bool has_least = std::isfinite(least), has_most = std::isfinite(most);
  if (!is_low && !is_high && std::isfinite(number)) return "";
  if ((!is_low && !is_high) || (!has_least && !has_most)) return "must be a finite number";
  const auto text = [](double x) { return std::abs(x) < 1e15 && x == std::floor(x) ? cat(std::llround(x)) : cat(x); };
  const std::string from = (excludes_least ? "above " : "at least ") + text(least);
  const std::string to = (excludes_most ? "below " : "at most ") + text(most);
  if (!has_least || !has_most) return "must be " + (has_least ? from : to);
  if (excludes_least || excludes_most) return cat("must be ", from, " and ", to);
  return cat("must be from ", text(least), " to ", text(most));
}

std::string Bounds::interval() const {
  return cat(excludes_least ? "(" : "[", least, " ", most, excludes_most ? ")" : "]");
}

std::string_view Setting::kind() const {
  static constexpr std::string_view kKinds[] = {"switch", "whole", "real", "text", "whole", "real", "text", "list"};
  return kKinds[variable.index()];
}

std::string Setting::objection(const std::string& word) const {
  if (!choices.empty() && std::ranges::count(choices, word) == 0)
    return "is unknown; choose one of " + join(choices, ", ");
  if (kind() == "switch" && word != "true" && word != "false") return "is not true or false";
  if (kind() == "whole" && !parse_int(word)) return "is not a whole number";
  if (kind() == "real" && !parse_float(word)) return "is not a number";
  return is_number() ? bounds.objection(*parse_float(word)) : "";
}

void Setting::store(const std::vector<std::string>& words) const {
  std::visit([&](auto* target) { store_words(words, *target); }, variable);
  if (is_inverted) *std::get<bool*>(variable) = words[0] != "true";
}

std::vector<std::string> Setting::words() const {
  if (is_inverted) return {cat(!*std::get<bool*>(variable))};
  return std::visit([](auto* source) { return words_in(*source); }, variable);
}

bool Setting::has_value() const {
  const std::vector<std::string> texts = words();
  return !text().empty() &&
         std::ranges::all_of(texts, [this](const std::string& word) { return objection(word).empty(); });
}

}  // namespace mtl
