// How many samples each update uses. The number is constant, ramped up, or scheduled.
//
// Let `consumed` be the number of samples consumed so far. As in Megatron-LM, the batch size is
//   constant        the global batch size
//   ramp-up         given as START INCREMENT SAMPLES. While consumed <= samples, the batch size is
//                   start + increment * int(consumed / (samples / steps)), computed in f64, where
//                   steps = (global - start) / increment. Afterwards, it is the global batch size.
//   schedule        given as THRESHOLD:SIZE pairs, such as "0:768 250B:1536". The last threshold that is not greater
//                   than `consumed` gives the batch size. If a sequence length is given, thresholds are in tokens and
//                   are divided by the sequence length; otherwise, they are in samples. The suffixes K, M, B and T are
//                   powers of 1000.
// Each batch size must be a multiple of micro-batch size x data-parallel size, unless decrease_if_needed is set. In
// that case, batch sizes are rounded down to a multiple.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/setting.h"

namespace mtl {

/// The allowed range for batch sizes, micro-batch sizes and rank counts. The product of two such values is below 2^63.
inline constexpr Bounds kBatchSizes{1, INT32_MAX};

struct BatchSizeOptions {
  std::int64_t global_batch_size = 1;  // overridden by a schedule
  std::int64_t micro_batch_size = 1;
  std::int64_t data_parallel_size = 1;
  std::optional<std::vector<std::int64_t>> rampup{};  // start, increment, samples
  std::string schedule{};                             // --step-batch-size-schedule; empty: none
  std::optional<std::int64_t> seq_length{};           // if set, thresholds are in tokens
  bool decrease_if_needed = false;
};

class BatchSizes {
 public:
  /// Throws Error(usage) in these cases. The message does not include the flag.
  /// - The ramp or the schedule is malformed, or both are given.
  /// - A batch size is not a multiple (see above), or rounds down to zero.
  /// - A number is outside kBatchSizes.
  explicit BatchSizes(const BatchSizeOptions& options);

  /// nominal() returns the configured batch size after `consumed` samples. running() returns the next update's size,
  /// which is nominal(), rounded down to a multiple if necessary.
  std::int64_t nominal(std::int64_t consumed) const;
  std::int64_t running(std::int64_t consumed) const { return round_down(nominal(consumed)); }
  /// Returns the number of micro-batches per rank in the next update.
  std::int64_t micro_batches(std::int64_t consumed) const { return running(consumed) / micro_batch_times_dp_; }
  /// All possible update sizes, in ascending order.
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::int64_t largest() const { return sizes_.back(); }

  // During a ramp, the next two functions advance one update at a time, so they take longer for a longer ramp.
  /// Returns how many full updates take a run from `consumed` samples to a total of `samples` samples. A partial batch
  /// at the end does not count.
  std::int64_t count_iterations(std::int64_t samples, std::int64_t consumed = 0) const;
  /// Returns how many samples the first `iterations` updates use.
  std::int64_t count_samples(std::int64_t iterations) const;

 private:
  struct Step {
    std::int64_t from, size;  // `size` applies once `from` samples have been consumed
  };
  struct Rampup {
    std::int64_t start, increment, samples;
    double samples_per_step;
  };
  std::int64_t round_down(std::int64_t size) const { return size / micro_batch_times_dp_ * micro_batch_times_dp_; }
  void read_rampup(const std::vector<std::int64_t>& numbers);
  void read_schedule(const BatchSizeOptions& options);
  void add_size(std::int64_t size);
  std::int64_t next_change(std::int64_t consumed) const;

  std::int64_t global_, micro_batch_times_dp_;
  bool decrease_if_needed_;
  std::optional<Rampup> rampup_;
  std::vector<Step> steps_;
  std::vector<std::int64_t> sizes_;
};

}  // namespace mtl
