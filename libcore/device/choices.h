// Choices between equivalent computations, made by measuring: the algorithm of a matrix product of a shape, the
// variant of attention. Other choices give other last bits and another speed, so a checkpoint stores them, and a file
// spares the next run the measurements.
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

  /// The choice for `key`; empty without one.
  std::optional<std::string> find(const std::string& key) const;
  void set(const std::string& key, const std::string& choice) { table_[key] = choice; }
  /// The choice for `key` if it is one of `candidates`, otherwise the one that `measure` finds fastest, which is
  /// stored. The first of equally fast candidates wins. A single candidate is not measured. Throws Error without
  /// candidates.
  std::string choose(const std::string& key, const std::vector<std::string>& candidates, const Measure& measure);

  /// false: choose() takes the first candidate without measuring, for programs too short to gain from it.
  void set_measuring(bool measuring) { measures_ = measuring; }

  const std::map<std::string, std::string>& table() const { return table_; }
  /// Adds the choices of `other` for keys that have none.
  void add(const std::map<std::string, std::string>& other) { table_.insert(other.begin(), other.end()); }

 private:
  std::map<std::string, std::string> table_;
  bool measures_ = true;
};

/// The index of the candidate with the smallest time; of equal ones, or if none can be used, the first. NaN
/// counts as infinity.
std::size_t fastest(const std::vector<std::string>& candidates, const Choices::Measure& measure);

}  // namespace mtl
