// Chooses the next token from logits. Pure functions in fp64.
//
// In this order: temperature divides the logits; top-k keeps the k largest and all that equal the k-th; softmax over
// those; top-p keeps the fewest of the largest probabilities whose sum exceeds p (the token that crosses p stays; of
// equal probabilities, that of the lower id counts as larger) and renormalizes.
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
  std::vector<double> probs;      // of each; their sum is 1
};

/// The id of the largest logit; the lowest id if several are equal.
std::int32_t argmax(std::span<const float> logits);
/// Fills `out` with the candidates and reuses its memory.
void filter_logits(std::span<const float> logits, const SamplingOptions& options, Candidates& out);
/// Returns the first candidate at which the running sum of probabilities exceeds `uniform`, in [0, 1).
std::int32_t pick(const Candidates& candidates, double uniform);
/// log softmax(logits)[id], of the unfiltered logits.
double log_probability(std::span<const float> logits, std::int32_t id);
/// A uniform number in [0, 1) for new token `position` (from 0) of `sequence`; depends only on the arguments.
double uniform_draw(std::uint32_t seed, std::uint64_t sequence, std::uint64_t position);

}  // namespace mtl
