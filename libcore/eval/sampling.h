// Chooses the next token from logits. Pure functions in fp64.
//
// Steps:
// 1. Divide the logits by the temperature.
// 2. Top-k keeps the k largest logits, and all that equal the k-th largest.
// 3. Apply softmax to the logits that are left.
// 4. Top-p keeps the smallest set of largest probabilities whose sum exceeds p, and renormalizes them. If probabilities
//    are equal, it prefers the lower id.
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
  std::vector<double> probs;      // one per id; they sum to 1
};

/// Returns the id of the largest logit. If several are equal, returns the lowest id.
std::int32_t argmax(std::span<const float> logits);
/// Fills `out` with the candidates. Reuses its memory.
void filter_logits(std::span<const float> logits, const SamplingOptions& options, Candidates& out);
/// Returns the first candidate at which the running sum of probabilities exceeds `uniform`, which is in [0, 1).
std::int32_t pick(const Candidates& candidates, double uniform);
/// Returns log softmax(logits)[id] for the unfiltered logits.
double log_probability(std::span<const float> logits, std::int32_t id);
/// Returns a uniform random number in [0, 1) for new token `position` (from 0) in `sequence`. It depends only on the
/// arguments.
double uniform_draw(std::uint32_t seed, std::uint64_t sequence, std::uint64_t position);

}  // namespace mtl
