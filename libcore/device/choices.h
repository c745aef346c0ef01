// Choices between equivalent computations, made by measuring: the algorithm of a matrix product of a shape, the variant
// of attention. Different choices differ in speed and in the last bits of results, so checkpoints store them; a file
// saves the next run the measurements.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mtl {

class Choices {
 public:
  /// Returns the seconds that a candidate takes; infinity if it cannot be used.
  using Measure = std::function<double(const std::string& candidate)>;

  /// Returns the choice for `key`, if any.
  std::optional<std::string> find(const std::string& key) const;
  void set(const std::string& key, const std::string& choice) { table_[key] = choice; }
  /// Returns the choice for `key` if it is one of `candidates`; otherwise chooses the one that `measure` finds fastest,
  /// and stores it. The first of equally fast candidates wins. A single candidate is not measured. Throws Error if
  /// there are no candidates.
  std::string choose(const std::string& key, const std::vector<std::string>& candidates, const Measure& measure);

  /// With false, choose() takes the first candidate without measuring, for programs too short to gain from it.
  void set_measuring(bool measuring) { measures_ = measuring; }

  const std::map<std::string, std::string>& table() const { return table_; }
  /// Adds the choices of `other` for keys that have none.
  void add(const std::map<std::string, std::string>& other) { table_.insert(other.begin(), other.end()); }

 private:
  std::map<std::string, std::string> table_;
  bool measures_ = true;
};

/// Returns the index of the candidate with the shortest time; the first of equal ones, or 0 if none can be used. NaN
/// counts as infinity.
std::size_t fastest(const std::vector<std::string>& candidates, const Choices::Measure& measure);

}  // namespace mtl
