// Choices between equivalent computations, such as algorithms for a GEMM of a given shape or attention variants. We
// choose by measuring. Different choices differ in speed and in the last bits of results, so checkpoints store them. A
// file also stores them, so that the next run need not repeat the measurements.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mtl {

class Choices {
 public:
  /// Returns how long a candidate takes, in seconds, or infinity if it cannot be used.
  using Measure = std::function<double(const std::string& candidate)>;

  /// Returns the choice for `key`, if any.
  std::optional<std::string> find(const std::string& key) const;
  void set(const std::string& key, const std::string& choice) { table_[key] = choice; }
  /// If the stored choice for `key` is one of `candidates`, returns it. Otherwise, stores and returns the fastest
  /// candidate according to `measure`; among equally fast candidates, the first. Does not measure a single candidate.
  /// Throws Error if there are no candidates.
  std::string choose(const std::string& key, const std::vector<std::string>& candidates, const Measure& measure);

  /// If `measuring` is false, choose() takes the first candidate without measuring. For programs that are too short to
  /// benefit from measurements.
  void set_measuring(bool measuring) { measures_ = measuring; }

  const std::map<std::string, std::string>& table() const { return table_; }
  /// Adds choices from `other` for keys that have no choice yet.
  void add(const std::map<std::string, std::string>& other) { table_.insert(other.begin(), other.end()); }

 private:
  std::map<std::string, std::string> table_;
  bool measures_ = true;
};

/// Returns the index of the candidate with the shortest time, the first one if times are equal, or 0 if no candidate
/// can be used. NaN counts as infinity.
std::size_t fastest(const std::vector<std::string>& candidates, const Choices::Measure& measure);

}  // namespace mtl
