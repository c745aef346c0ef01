// Chooses the next token from logits. Pure functions in fp64.
//
// The steps, in order: (1) divide the logits by the temperature; (2) top-k keeps the k largest logits and all logits
// that equal the k-th largest; (3) softmax over the kept logits; (4) top-p keeps the smallest set of largest
// probabilities whose sum exceeds p, including the token whose probability makes the sum exceed p, and renormalizes.
// Top-p breaks ties in favor of the lower id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mtl {

struct SamplingOptions {
  double temperature = 1;  // above 0, finite
  std::int64_t top_k = 0;  // 0: off
  double top_p = 0;        // 0 or 1: off
};

/// The tokens to draw from.
struct Candidates {
  std::vector<std::int32_t> ids;  // ascending
  std::vector<double> probs;      // of each id; the sum is 1
};

/// Returns the id of the largest logit; the lowest such id if several logits are equal.
std::int32_t argmax(std::span<const float> logits);
/// Fills `out` with the candidates. Reuses the memory of `out`.
void filter_logits(std::span<const float> logits, const SamplingOptions& options, Candidates& out);
/// Returns the first candidate at which the running sum of probabilities exceeds `uniform`, in [0, 1).
std::int32_t pick(const Candidates& candidates, double uniform);
/// Returns log softmax(logits)[id] of the unfiltered logits.
double log_probability(std::span<const float> logits, std::int32_t id);
/// Returns a uniform random number in [0, 1) for new token `position` (from 0) of `sequence`. The number depends only
/// on the arguments.
double uniform_draw(std::uint32_t seed, std::uint64_t sequence, std::uint64_t position);

}  // namespace mtl
