// From logits to the next token. Pure functions, fp64.
//
// In this order: temperature divides the logits; top-k keeps the k largest and all that equal the k-th; the softmax of
// what is left; top-p keeps the smallest set of the largest probabilities whose sum exceeds p (the token that crosses
// p stays; of equal probabilities the lower id counts as larger) and renormalizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mtl {

struct SamplingOptions {
  double temperature = 1;  // above 0, finite
  std::int64_t top_k = 0;  // 0: off
  double top_p = 0;        // 0: off
};

/// The tokens that may come next.
struct Candidates {
  std::vector<std::int32_t> ids;  // ascending
  std::vector<double> probs;      // of each; their sum is 1
};

/// The largest logit; the lowest id of several.
std::int32_t argmax(std::span<const float> logits);
/// Writes `out`, whose memory is kept between calls.
void filter_logits(std::span<const float> logits, const SamplingOptions& options, Candidates& out);
/// The candidate that `uniform`, in [0, 1), falls on.
std::int32_t pick(const Candidates& candidates, double uniform);
/// log softmax(logits)[id], of the unfiltered logits.
double log_probability(std::span<const float> logits, std::int32_t id);
/// A number in [0, 1) that depends on its arguments alone: of the `position`-th new token of sequence `sequence`.
double uniform_draw(std::uint32_t seed, std::uint64_t sequence, std::uint64_t position);

}  // namespace mtl
