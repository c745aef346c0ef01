#include "data/split.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/count_of.h"
#include "base/error.h"

namespace mtl {

std::array<std::optional<SplitShare>, 3> parse_split(std::string_view text) {
  constexpr std::string_view kNumberCharacters = ".0123456789";
  std::vector<double> weights;
  for (std::size_t at = text.find_first_of(kNumberCharacters); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_not_of(kNumberCharacters, at), text.size());
    const auto weight = parse_float(text.substr(at, end - at));
    if (!weight || !std::isfinite(*weight)) {
      fail(Exit::usage, "'", text.substr(at, end - at), "' is not a number");
    }
    weights.push_back(*weight);
    at = text.find_first_of(kNumberCharacters, end);
  }
  if (weights.size() > 3) {
    fail(Exit::usage, "has ", weights.size(), " weights; use at most three, for train, valid and test");
  }
  weights.resize(3, 0.0);
  const double sum = weights[0] + weights[1] + weights[2];
  if (sum == 0 || !std::isfinite(sum)) {
    fail_at(Exit::usage, cat("--split ", text), "the weights add up to ", sum, "; write them as 969,30,1");
  }

  std::array<std::optional<SplitShare>, 3> shares;
  double begin = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double end = begin + weights[i] / sum;
    if (end > begin) shares[i] = SplitShare{begin, end};
    begin = end;
  }
  return shares;
}

SplitRange range_of(const SplitShare& share, std::int64_t sequences) {
  // nearbyint rounds halves to even, in the default rounding mode.
  const auto bound = [&](double part) { return static_cast<std::int64_t>(std::nearbyint(part * double(sequences))); };
  return {bound(share.begin), bound(share.end)};
}

std::array<std::int64_t, 3> count_samples(const RunLength& run) {
  require(run.global_batch_size > 0 && run.eval_interval >= 0, "count_samples: invalid batch size or interval");
  const bool counts_samples = run.train_samples && run.train_iters == 0;
  const std::int64_t iters = counts_samples ? *run.train_samples / run.global_batch_size : run.train_iters;
  const std::int64_t evaluations = (run.eval_interval > 0 ? iters / run.eval_interval : 0) + 1;
  std::array<std::int64_t, 3> counts{};
  if (__builtin_mul_overflow(iters, run.global_batch_size, &counts[0]) ||
      __builtin_mul_overflow(run.eval_iters, run.global_batch_size, &counts[2]) ||
      __builtin_mul_overflow(evaluations, counts[2], &counts[1])) {
    fail(Exit::usage, count_of(iters, "update"), " and ", count_of(evaluations, "evaluation"), " of ", run.eval_iters,
         run.eval_iters == 1 ? " batch" : " batches", ", each of ", count_of(run.global_batch_size, "sample"),
         ", overflow the 64-bit sample count; reduce --train-iters, --eval-iters or --global-batch-size");
  }
  counts[0] = run.train_samples.value_or(counts[0]);
  return counts;
}

}  // namespace mtl
