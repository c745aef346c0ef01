// The number of samples in each update: constant, growing on a ramp, or by a schedule.
//
// With `consumed` samples done, the size is as in Megatron-LM:
//   constant        the global batch size
//   ramp-up         start + increment * int(consumed / (samples / steps)) up to consumed = samples, in f64, with
//                   steps = (global - start) / increment; the global batch size beyond (START INC SAMPLES)
//   schedule        "0:768 250B:1536": the size of the last threshold that is not beyond `consumed`. Thresholds are
//                   tokens when a sequence length is given (divided by it), else samples; K M B T are powers of 1000
// Each size must be a multiple of one micro-batch on every data-parallel rank, or is cut down to one if so wanted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/setting.h"

namespace mtl {

/// Batches, micro-batches and numbers of ranks: the product of two of them is below 2^63.
inline constexpr Bounds kBatchSizes{1, INT32_MAX};

struct BatchSizeOptions {
  std::int64_t global_batch_size = 1;  // not used by a schedule
  std::int64_t micro_batch_size = 1;
  std::int64_t data_parallel_size = 1;
  std::optional<std::vector<std::int64_t>> rampup{};  // start, increment, samples
  std::string schedule{};                             // --step-batch-size-schedule; empty: none
  std::optional<std::int64_t> seq_length{};           // of the schedule's thresholds
  bool decrease_if_needed = false;
};

class BatchSizes {
 public:
  /// Throws Error(usage), without naming the flag, for steps that do not come out even, sizes that are not a
  /// multiple, and numbers outside of kBatchSizes.
  explicit BatchSizes(const BatchSizeOptions& options);

  /// The nominal batch size after `consumed` samples; and the size of the next update.
  std::int64_t nominal(std::int64_t consumed) const;
  std::int64_t running(std::int64_t consumed) const { return cut(nominal(consumed)); }
  /// Micro-batches of one rank.
  std::int64_t micro_batches(std::int64_t consumed) const { return running(consumed) / once_; }
  /// All possible sizes of updates, ascending.
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  std::int64_t largest() const { return sizes_.back(); }

  // Both walk through a ramp update by update: their cost is proportional to its samples.
  /// Updates from `consumed` samples on that `samples` in all are enough for: a last, partial batch is dropped.
  std::int64_t count_iterations(std::int64_t samples, std::int64_t consumed = 0) const;
  /// Samples of this many updates.
  std::int64_t count_samples(std::int64_t iterations) const;

 private:
  struct Step {
    std::int64_t from, size;  // applies from this many samples on
  };
  struct Rampup {
    std::int64_t start, increment, samples;
    double per_step;
  };
  std::int64_t cut(std::int64_t size) const { return size / once_ * once_; }
  void read_rampup(const std::vector<std::int64_t>& words);
  void read_schedule(const BatchSizeOptions& options);
  void check(std::int64_t size);
  std::int64_t changes_at(std::int64_t consumed) const;

  std::int64_t global_, once_;  // once: one micro-batch on every rank
  bool decrease_;
  std::optional<Rampup> rampup_;
  std::vector<Step> steps_;
  std::vector<std::int64_t> sizes_;
};

}  // namespace mtl
