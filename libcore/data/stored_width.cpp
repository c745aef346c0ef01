#include "data/stored_width.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace mtl {
namespace {

constexpr int kWidest = 8;

/// How often each value occurs among the bytes at each position of 8.
class ByteCounts {
 public:
  explicit ByteCounts(std::span<const std::byte> ids) : bytes_(ids.size()) {
    for (std::size_t i = 0; i < ids.size(); ++i) ++counts_[i % kWidest][std::to_integer<std::size_t>(ids[i])];
  }

  /// Returns how far the lower and the upper halves of integers of `width` bytes are apart: the largest difference of
  /// the cumulative distributions of two bytes at the same position in their half (Kolmogorov-Smirnov), 0 to 1.
  double distance_of_halves(int width) const {
    double farthest = 0;
    for (int byte = 0; byte < width / 2; ++byte) {
      std::int64_t below = 0;  // of the lower half's bytes, minus those of the upper half's
      for (std::size_t value = 0; value < 256; ++value) {
        for (int at = byte; at < kWidest; at += width) below += counts_[at][value] - counts_[at + width / 2][value];
        farthest = std::max(farthest, double(std::abs(below)) / samples(width));
      }
    }
    return farthest;
  }
  bool halves_differ(int width) const {
    // Equal distributions are as far apart once in a million times. A smaller distance than the second says little.
    return distance_of_halves(width) > std::max(2.7 * std::sqrt(2 / samples(width)), 0.1);
  }
  bool halves_are_alike(int width) const {
    constexpr double kEnough = 400;  // samples with which halves of ids are almost never as close by chance
    return samples(width) >= kEnough && distance_of_halves(width) < 0.15;
  }
  /// True if integers of `width` bytes are below 2^24, which no vocabulary exceeds, apart from one in a hundred.
  bool may_be_ids(int width) const {
    for (int at = 0; at < kWidest; ++at)
      if (at % width >= 3 && double(counts_[at][0]) < 0.99 * samples(kWidest)) return false;
    return true;
  }
  /// True for padding: ids that are mostly 0 are alike in any width.
  bool are_mostly_zeros() const {
    return std::ranges::all_of(counts_,
                               [this](const auto& counts) { return 2 * kWidest * counts[0] > std::int64_t(bytes_); });
  }

 private:
  double samples(int width) const { return double(bytes_) / width; }

  std::size_t bytes_;
  std::array<std::array<std::int64_t, 256>, kWidest> counts_{};
};

}  // namespace

std::optional<int> other_stored_width(std::span<const std::byte> ids, int bytes) {
  const ByteCounts counts(ids.first(ids.size() / kWidest * kWidest));
  for (int wide = kWidest; wide > bytes; wide /= 2)
    if (counts.halves_differ(wide)) return counts.may_be_ids(wide) ? std::optional(wide) : std::nullopt;
  int narrow = bytes;
  if (!counts.are_mostly_zeros())
    while (narrow > 1 && counts.halves_are_alike(narrow)) narrow /= 2;
  return narrow < bytes ? std::optional(narrow) : std::nullopt;
}

}  // namespace mtl
