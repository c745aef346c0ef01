// The order of samples in a blend of several data sets, identical to Megatron-LM's.
//
// Sample i is the next sample of the data set d with the largest w_d * max(i, 1) - count_d, where the weights w_d sum
// to one and count_d samples of d precede i (in f64; a tie goes to the lowest d). In the exhaustive form the weights
// are proportional to the sizes, and an exhausted data set is skipped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/big_array.h"

namespace mtl {

/// Returns values / sum, where the sum is added up in NumPy's order. Megatron-LM normalizes explicit weights twice,
/// which may change their last bits. Throws Error(usage) if the sum is not finite.
std::vector<double> normalize_weights(std::span<const double> values);

/// Returns ceil(size * weight), the number of samples that a blend of `size` requests from a data set of this weight
/// (normalized once). The blend's own length is the sum of these.
std::int64_t blend_target(std::int64_t size, double weight);
/// Returns ceil(target * 1.005), the number of samples to build of such a data set, so that rounding never exhausts it.
std::int64_t blend_surplus(std::int64_t target);

/// Stores one or two bytes per sample, and every 4,096 samples the counts from which sample() continues.
class BlendOrder {
 public:
  /// The greedy order of `size` samples; normalizes `weights`. Throws Error(usage) for more than 65,536 data sets.
  static BlendOrder weighted(std::span<const double> weights, std::int64_t size);
  /// Every sample of every data set, once. Throws Error(bad_data) if a data set is empty.
  static BlendOrder exhaustive(std::span<const std::int64_t> sizes);

  std::int64_t size() const { return size_; }
  std::int64_t dataset(std::int64_t index) const;
  /// The index of the sample in its data set.
  std::int64_t sample(std::int64_t index) const;
  /// Samples of each data set in the whole order.
  const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  BlendOrder(std::size_t datasets, std::int64_t size);
  void begin_block();
  void put(std::int64_t index, std::size_t dataset);

  std::size_t datasets_;
  std::int64_t size_;
  BigArray<std::uint8_t> narrow_;     // up to 256 data sets
  BigArray<std::uint16_t> wide_;      // more
  std::vector<std::int64_t> blocks_;  // (blocks, data sets): the counts before each block
  std::vector<std::int64_t> counts_;
};

}  // namespace mtl
