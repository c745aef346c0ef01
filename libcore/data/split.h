// Divides a data set into train, valid and test, and computes how many samples a run needs from each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mtl {

enum class Split : int { train = 0, valid = 1, test = 2 };
inline constexpr std::array<std::string_view, 3> kSplitNames = {"train", "valid", "test"};

/// A part of the data: fractions [begin, end) of the total.
struct SplitShare {
  double begin, end;
};
/// Sequences [begin, end).
struct SplitRange {
  std::int64_t begin, end;
};

/// Parses text such as "969,30,1". Every run of digits and periods is a weight; missing weights are zero. The weights
/// are divided by their sum, and the quotients are added up in f64. A split with weight zero gets nothing (nullopt).
/// Throws Error(usage) if there are more than three weights, if a weight is not a number, or if the sum is zero or not
/// finite. Only the message about the sum includes the flag.
std::array<std::optional<SplitShare>, 3> parse_split(std::string_view text);

/// Converts a share to a range of sequences. Each bound is its fraction of `sequences`, rounded to the nearest integer,
/// with halves to even.
SplitRange range_of(const SplitShare& share, std::int64_t sequences);

struct RunLength {
  std::int64_t train_iters = 0;  // if 0 and train_samples is set: train_samples / global_batch_size
  std::int64_t global_batch_size = 1;
  std::int64_t eval_interval = 1000;
  std::int64_t eval_iters = 100;
  std::optional<std::int64_t> train_samples{};
};

/// Returns how many train, valid and test samples a run needs. Train needs train_samples if set, otherwise iterations *
/// global_batch_size. Valid is evaluated every eval_interval iterations (0: never) and once at the end, on eval_iters
/// batches each time. Test is evaluated once, at the end, also on eval_iters batches. Throws Error(usage) if a number
/// exceeds 2^63 - 1.
std::array<std::int64_t, 3> count_samples(const RunLength& run);

}  // namespace mtl
