// The order of samples in a blend of several data sets, identical to Megatron-LM's.
//
// With weights w_d that sum to one, and count_d samples of data set d so far, place i goes to the data set of the
// largest w_d * max(i, 1) - count_d (in f64; the first of equals), and takes its next sample. In the exhaustive form
// the weights are the sizes' shares, and a data set that is used up is passed over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/big_array.h"

namespace mtl {

/// NumPy's sum of f64: fewer than 8 in their order; up to 128 in eight interleaved sums r0 .. r7, added as
/// ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)), then the rest in order; more are cut at n / 2 rounded down to a
/// multiple of 8.
double numpy_sum(std::span<const double> values);

/// values / numpy_sum(values). Megatron-LM does it twice to weights that are given, which may change their last bits.
/// Throws Error(usage) when the sum is not finite.
std::vector<double> normalize_weights(std::span<const double> values);

/// The samples that a blend of `size` samples takes of a data set of this weight (normalized once): ceil(size *
/// weight). The blend's own length is the sum of these.
std::int64_t blend_target(std::int64_t size, double weight);
/// The samples to build of the data set, so that rounding never uses them up: ceil(target * 1.005).
std::int64_t blend_surplus(std::int64_t target);

/// The order is kept as one or two bytes a sample; a running count every 4,096 samples finds which sample of its data
/// set each is.
class BlendOrder {
 public:
  /// The greedy order of `size` samples; `weights` are normalized once more. At most 65,536 data sets.
  static BlendOrder weighted(std::span<const double> weights, std::int64_t size);
  /// The order of every sample of every data set, once.
  static BlendOrder exhaustive(std::span<const std::int64_t> sizes);

  std::int64_t size() const { return size_; }
  std::int64_t dataset(std::int64_t index) const;
  /// The sample's number in its data set.
  std::int64_t sample(std::int64_t index) const;
  /// Samples of each data set in the whole order.
  const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  BlendOrder(std::size_t datasets, std::int64_t size);
  void begin_block(std::span<const std::int64_t> counts);
  void put(std::int64_t index, std::size_t dataset);

  std::size_t datasets_;
  std::int64_t size_;
  BigArray<std::uint8_t> narrow_;     // up to 256 data sets
  BigArray<std::uint16_t> wide_;      // more
  std::vector<std::int64_t> blocks_;  // counts before every block, data set after data set
  std::vector<std::int64_t> counts_;
};

}  // namespace mtl
