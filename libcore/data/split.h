// Divides one data set into train, valid and test, and counts the samples that a run needs of each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mtl {

enum class Split : int { train = 0, valid = 1, test = 2 };
inline constexpr std::array<std::string_view, 3> kSplitNames = {"train", "valid", "test"};

/// A share of the data: fractions [begin, end) of the whole.
struct SplitShare {
  double begin, end;
};
/// Sequences [begin, end).
struct SplitRange {
  std::int64_t begin, end;
};

/// Reads "969,30,1": every run of digits and points is a weight; missing ones are zero. Weights are divided by their
/// sum and added up in f64. A split without weight is empty (no data at all). Throws Error(usage) for more than three
/// weights, one that is not a number, or a sum that is zero or not finite; only the last names the flag.
std::array<std::optional<SplitShare>, 3> parse_split(std::string_view text);

/// Returns the share as a range of `sequences`: each bound is share * sequences, halves rounded to even.
SplitRange range_of(const SplitShare& share, std::int64_t sequences);

struct RunLength {
  std::int64_t train_iters = 0;  // 0 with train_samples: train_samples / global_batch_size
  std::int64_t global_batch_size = 1;
  std::int64_t eval_interval = 1000;
  std::int64_t eval_iters = 100;
  std::optional<std::int64_t> train_samples{};
};

/// Returns the numbers of samples that a run needs of train, valid and test: train_samples, or iterations * batch; an
/// evaluation every eval_interval iterations and one at the end, of eval_iters batches each; one test at the end,
/// likewise. Throws Error(usage) for more than 2^63 - 1.
std::array<std::int64_t, 3> count_samples(const RunLength& run);

}  // namespace mtl
