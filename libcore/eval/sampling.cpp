#include "eval/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "device/philox.h"

namespace mtl {

namespace {

// Selects a random sequence different from those of the model's dropout sites, which have small values.
constexpr std::uint32_t kGenerationSite = 0x47454E00;

/// Drops candidates whose logit is less than the k-th largest. `c.probs` still holds logits.
void keep_top_k(Candidates& c, std::int64_t k) {
  if (k <= 0 || k >= std::ssize(c.ids)) return;
  std::vector<double> sorted = c.probs;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
  double least = sorted[k - 1];
  std::size_t kept = 0;
  for (std::size_t i = 0; i < c.ids.size(); ++i) {
    if (c.probs[i] < least) continue;
    c.ids[kept] = c.ids[i];
    c.probs[kept++] = c.probs[i];
  }
  c.ids.resize(kept);
  c.probs.resize(kept);
}

void normalize(std::vector<double>& probs) {
  double sum = 0;
  for (double p : probs) sum += p;
  for (double& p : probs) p /= sum;
}

void softmax(std::vector<double>& values) {
  double top = *std::ranges::max_element(values);
  for (double& value : values) value = std::exp(value - top);
  normalize(values);
}

/// A heap returns the largest probabilities first. Usually, we need only a few tokens from a large vocabulary.
void keep_top_p(Candidates& c, double p) {
  if (p <= 0 || p >= 1) return;
  struct Entry {
    double prob;
    std::int32_t id;
    bool operator<(const Entry& other) const { return prob != other.prob ? prob < other.prob : id > other.id; }
  };
  std::vector<Entry> heap;
  for (std::size_t i = 0; i < c.ids.size(); ++i) heap.push_back({c.probs[i], c.ids[i]});
  std::make_heap(heap.begin(), heap.end());
  auto end = heap.end();
  for (double sum = 0; sum <= p && end != heap.begin(); sum += end->prob) std::pop_heap(heap.begin(), end--);
  std::sort(end, heap.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  c.ids.clear();
  c.probs.clear();
  for (; end != heap.end(); ++end) {
    c.ids.push_back(end->id);
    c.probs.push_back(end->prob);
  }
  normalize(c.probs);
}

}  // namespace

std::int32_t argmax(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

void filter_logits(std::span<const float> logits, const SamplingOptions& options, Candidates& out) {
  out.ids.clear();
  out.probs.clear();
  // Subtract the largest logit before dividing by the temperature, because the quotient could overflow for small
  // temperatures.
  const double top = *std::ranges::max_element(logits);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    out.ids.push_back(static_cast<std::int32_t>(i));
    out.probs.push_back((double{logits[i]} - top) / options.temperature);
  }
  keep_top_k(out, options.top_k);
  softmax(out.probs);
  keep_top_p(out, options.top_p);
}

std::int32_t pick(const Candidates& candidates, double uniform) {
  double sum = 0;
  for (std::size_t i = 0; i < candidates.ids.size(); ++i) {
    sum += candidates.probs[i];
    if (uniform < sum) return candidates.ids[i];
  }
  // Due to rounding, the sum can be slightly less than 1.
  auto last = candidates.probs.size() - 1;
  while (last > 0 && candidates.probs[last] == 0) --last;
  return candidates.ids[last];
}

double log_probability(std::span<const float> logits, std::int32_t id) {
  double top = *std::ranges::max_element(logits), sum = 0;
  for (float logit : logits) sum += std::exp(double{logit} - top);
  return double{logits[id]} - top - std::log(sum);
}

double uniform_draw(std::uint32_t seed, std::uint64_t sequence, std::uint64_t position) {
  auto bits = philox({seed, kGenerationSite}, sequence, position);
  std::uint64_t wide = std::uint64_t{bits[0]} << 32 | bits[1];
  return double(wide >> 11) * 0x1p-53;
}

}  // namespace mtl
