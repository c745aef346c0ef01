// Choices between ways to compute the same, made by measuring: which algorithm multiplies matrices of a shape, which
// variant of attention. Other choices give other last bits and other speed, so a checkpoint keeps them, and a file
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
  /// Seconds that a candidate takes; infinity where it cannot be used.
  using Measure = std::function<double(const std::string& candidate)>;

  /// The choice for `key`, or nothing.
  std::optional<std::string> find(const std::string& key) const;
  void set(const std::string& key, const std::string& choice) { table_[key] = choice; }
  /// The choice for `key` if it is one of `candidates`, otherwise the one that `measure` finds fastest, which is kept.
  /// The first of equally fast candidates wins. A single candidate is not measured. Throws Error without candidates.
  std::string choose(const std::string& key, const std::vector<std::string>& candidates, const Measure& measure);

  /// Whether choose() may measure; otherwise it takes the first candidate. For programs that are done before it pays.
  void set_measuring(bool measuring) { measures_ = measuring; }

  const std::map<std::string, std::string>& table() const { return table_; }
  /// Adds the choices of `other` for keys that have none.
  void add(const std::map<std::string, std::string>& other) { table_.insert(other.begin(), other.end()); }

 private:
  std::map<std::string, std::string> table_;
  bool measures_ = true;
};

/// The place of the candidate with the smallest time; of equal ones, and of those that cannot be used, the first. NaN
/// counts as infinity.
std::size_t fastest(const std::vector<std::string>& candidates, const Choices::Measure& measure);

}  // namespace mtl
