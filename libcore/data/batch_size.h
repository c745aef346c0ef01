// The number of samples in each update: constant, ramped up, or scheduled.
//
// After `consumed` samples the batch size is Megatron-LM's:
//   constant        the global batch size
//   ramp-up         start + increment * int(consumed / (samples / steps)) up to consumed = samples, in f64, with
//                   steps = (global - start) / increment; the global batch size after that (START INC SAMPLES)
//   schedule        "0:768 250B:1536": the size of the last threshold that is not beyond `consumed`. Thresholds are
//                   tokens when a sequence length is given (divided by it), else samples; K M B T are powers of 1000
// Each size must be a multiple of micro-batch size x data-parallel size; decrease_if_needed rounds it down to a
// multiple.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/setting.h"

namespace mtl {

/// Bounds of batch sizes, micro-batch sizes and rank counts: the product of any two is below 2^63.
inline constexpr Bounds kBatchSizes{1, INT32_MAX};

struct BatchSizeOptions {
  std::int64_t global_batch_size = 1;  // replaced by a schedule
  std::int64_t micro_batch_size = 1;
  std::int64_t data_parallel_size = 1;
  std::optional<std::vector<std::int64_t>> rampup{};  // start, increment, samples
  std::string schedule{};                             // --step-batch-size-schedule; empty: none
  std::optional<std::int64_t> seq_length{};           // makes the schedule's thresholds tokens
  bool decrease_if_needed = false;
};

class BatchSizes {
 public:
  /// Throws Error(usage), without naming the flag, for a malformed ramp or schedule, for both at once, for sizes that
  /// are not a multiple or round down to zero, and for numbers outside kBatchSizes.
  explicit BatchSizes(const BatchSizeOptions& options);

  /// The configured batch size after `consumed` samples, and the size of the next update: rounded down if necessary.
  std::int64_t nominal(std::int64_t consumed) const;
  std::int64_t running(std::int64_t consumed) const { return round_down(nominal(consumed)); }
  /// Micro-batches of one rank in the next update.
  std::int64_t micro_batches(std::int64_t consumed) const { return running(consumed) / micro_batch_times_dp_; }
  /// All possible sizes of updates, ascending.
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::int64_t largest() const { return sizes_.back(); }

  // The next two functions step through a ramp update by update: their cost is proportional to the ramp's samples.
  /// Returns the number of full updates from `consumed` to `samples` samples in total; drops a partial batch at the
  /// end.
  std::int64_t count_iterations(std::int64_t samples, std::int64_t consumed = 0) const;
  /// Returns the number of samples in the first `iterations` updates.
  std::int64_t count_samples(std::int64_t iterations) const;

 private:
  struct Step {
    std::int64_t from, size;  // `size` applies from `from` samples
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
