// Chooses between equivalent computations by measuring them, for example GEMM algorithms or attention variants. Choices
// affect speed and the last bits in results, so checkpoints store them. We also store them in a file, so that the next
// run need not repeat the measurements.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mtl {

class Choices {
 public:
  /// Returns how long a candidate takes, in seconds, or infinity if we cannot use it.
  using Measure = std::function<double(const std::string& candidate)>;

  /// Returns the choice for `key`, if any.
  std::optional<std::string> find(const std::string& key) const;
  void set(const std::string& key, const std::string& choice) { table_[key] = choice; }
  /// If the stored choice for `key` is one of `candidates`, returns it. Otherwise stores and returns the fastest
  /// candidate according to `measure`. If there is a tie, the first candidate wins. A single candidate is not measured.
  /// Throws Error if `candidates` is empty.
  std::string choose(const std::string& key, const std::vector<std::string>& candidates, const Measure& measure);

  /// Records under a key of its own why a candidate cannot be used.
  void refuse(const std::string& key, const std::string& candidate, const std::string& why);
  /// Returns a line for each such record: "KEY refuses CANDIDATE: WHY".
  std::vector<std::string> refusals() const;

  /// If `measuring` is false, choose() takes the first candidate without measuring. Useful for programs that are too
  /// short to benefit from measurements.
  void set_measuring(bool measuring) { measures_ = measuring; }

  const std::map<std::string, std::string>& table() const { return table_; }
  /// Adds those choices from `other` whose keys have no choice yet.
  void add(const std::map<std::string, std::string>& other) { table_.insert(other.begin(), other.end()); }

 private:
  std::map<std::string, std::string> table_;
  bool measures_ = true;
};

/// Returns the index of the fastest candidate. If there is a tie, returns the first. Returns 0 if no candidate can be
/// used. NaN counts as infinity.
std::size_t fastest(const std::vector<std::string>& candidates, const Choices::Measure& measure);

}  // namespace mtl
