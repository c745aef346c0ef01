// The sample order in a blend of multiple data sets, identical to Megatron-LM's.
//
// Sample i in the blend is the next sample from the data set d that maximizes w_d * max(i, 1) - count_d. Here w_d is
// the weight of d, and count_d is how many of the blend's samples 0 to i - 1 come from d. The weights sum to one. The
// expression is computed in f64, and the lowest d wins a tie. In the exhaustive form, weights are proportional to data
// set sizes, and exhausted data sets are skipped.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/big_array.h"

namespace mtl {

/// Divides `values` by their sum, computed in NumPy's order. Throws Error(usage) if the sum is not finite. Note that
/// Megatron-LM normalizes explicit weights twice, and the second time may change their last bits.
std::vector<double> normalize_weights(std::span<const double> values);

/// Returns ceil(size * weight): how many samples a blend of `size` samples requests from a data set whose weight,
/// normalized once, is `weight`. The actual length of the blend is the sum of these targets.
std::int64_t blend_target(std::int64_t size, double weight);
/// Returns ceil(target * 1.005): how many samples to build for a data set with this target. The surplus ensures that
/// rounding never exhausts the data set.
std::int64_t blend_surplus(std::int64_t target);

/// The sample order in a blend. Keeps one or two bytes per sample. For every block of 4,096 samples, also keeps how
/// many samples of each data set precede the block. sample() starts counting from these numbers.
class BlendOrder {
 public:
  /// Returns the greedy order for `size` samples. Normalizes `weights`. Throws Error(usage) if there are more than
  /// 65,536 data sets or the weights do not have a finite sum.
  static BlendOrder weighted(std::span<const double> weights, std::int64_t size);
  /// Returns the exhaustive order, which contains every sample of every data set once. Throws Error(bad_data) if a data
  /// set is empty, and Error(usage) if there are more than 65,536 data sets.
  static BlendOrder exhaustive(std::span<const std::int64_t> sizes);

  std::int64_t size() const { return size_; }
  std::int64_t dataset(std::int64_t index) const;
  /// Returns the index in dataset(index) of the blend's sample `index`.
  std::int64_t sample(std::int64_t index) const;
  /// How many samples each data set contributes to the entire order.
  const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  BlendOrder(std::size_t datasets, std::int64_t size);
  void begin_block();

  std::size_t datasets_;
  std::int64_t size_;
  std::variant<BigArray<std::uint8_t>, BigArray<std::uint16_t>> order_;  // data set of each sample; one byte for <= 256
  std::vector<std::int64_t> blocks_;  // (blocks, data sets): counts before each block
  std::vector<std::int64_t> counts_;
};

}  // namespace mtl
