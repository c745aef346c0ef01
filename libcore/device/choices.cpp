#include "device/choices.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

std::optional<std::string> Choices::find(const std::string& key) const {
  const auto found = table_.find(key);
  return found == table_.end() ? std::nullopt : std::optional(found->second);
}

std::string Choices::choose(const std::string& key, const std::vector<std::string>& candidates,
                            const Measure& measure) {
  require(!candidates.empty(), "nothing to choose from for ", key);
  const auto known = std::find(candidates.begin(), candidates.end(), find(key).value_or(""));
  if (known != candidates.end()) return *known;
  const bool measures = measures_ && candidates.size() > 1;
  const std::string& best = candidates[measures ? fastest(candidates, measure) : 0];
  set(key, best);
  return best;
}

namespace {
constexpr const char* kRefuses = " refuses ";
}

void Choices::refuse(const std::string& key, const std::string& candidate, const std::string& why) {
  set(cat(key, kRefuses, candidate), why);
}

std::vector<std::string> Choices::refusals() const {
  std::vector<std::string> out;
  for (const auto& [key, why] : table_)
    if (key.find(kRefuses) != std::string::npos) out.push_back(cat(key, ": ", why));
  return out;
}

std::size_t fastest(const std::vector<std::string>& candidates, const Choices::Measure& measure) {
  std::size_t best = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const double seconds = measure(candidates[i]);
    if (!(seconds < shortest)) continue;
    shortest = seconds;
    best = i;
  }
  return best;
}

}  // namespace mtl
