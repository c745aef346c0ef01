#include "data/divide.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "base/bisect.h"
#include "base/count_of.h"
#include "base/error.h"
#include "data/numpy_random.h"

namespace mtl {
namespace {

/// For each bound, returns the sum of the weights before it, divided by the sum of all weights. The first value is 0
/// and the last is 1.
std::vector<double> shares_before(std::vector<double> weights) {
  // Scale by a power of two, which changes no ratio, so that the sum cannot overflow.
  int exponent = 0;
  std::frexp(*std::ranges::max_element(weights), &exponent);
  for (double& weight : weights) weight = std::ldexp(weight, -exponent);
  std::vector<double> shares{0};
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (const double weight : weights) shares.push_back(shares.back() + weight / sum);
  shares.back() = 1;
  return shares;
}

/// Draws a uniform number in [0, limit).
std::uint64_t draw_below(std::mt19937_64& engine, std::uint64_t limit) {
  const std::uint64_t excess = (UINT64_MAX % limit + 1) % limit;  // 2^64 modulo limit
  for (;;) {
    const std::uint64_t draw = engine();
    if (draw <= UINT64_MAX - excess) return draw % limit;
  }
}

}  // namespace

std::vector<std::int64_t> divide_documents(const IndexedDataset& data, const std::vector<double>& weights) {
  std::vector<std::int64_t> bounds;
  for (const double share : shares_before(weights)) {
    bounds.push_back(static_cast<std::int64_t>(std::nearbyint(share * double(data.documents()))));
  }
  return bounds;
}

std::vector<std::int64_t> divide_tokens(const IndexedDataset& data, const std::vector<double>& weights) {
  const auto tokens_before = [&](std::int64_t document) { return data.token_begin(data.document_begin(document)); };
  std::vector<std::int64_t> bounds;
  for (const double share : shares_before(weights)) {
    const double target = share * double(data.tokens());
    // Searches for the first document with at least `target` tokens before it. The bound is either this document or the
    // previous one, whichever is nearer to `target`.
    std::int64_t low =
        bisect(data.documents(), [&](std::int64_t document) { return double(tokens_before(document)) < target; });
    if (low > 0 && target - double(tokens_before(low - 1)) <= double(tokens_before(low)) - target) --low;
    bounds.push_back(low);
  }
  bounds.back() = data.documents();
  return bounds;
}

std::vector<std::int64_t> divide_by_counts(const IndexedDataset& data,
                                           const std::vector<std::optional<std::int64_t>>& counts) {
  std::int64_t sum = 0;
  bool has_rest = false;
  for (const std::optional<std::int64_t> count : counts) {
    has_rest = has_rest || !count;
    sum += std::min(count.value_or(0), data.documents() + 1 - sum);  // at most one too many: cannot overflow
  }
  if (sum > data.documents() || (!has_rest && sum < data.documents())) {
    fail(Exit::usage, sum > data.documents() ? "adds up to more" : "adds up to fewer", " than the ",
         count_of(data.documents(), "document"), " of ", data.prefix(),
         has_rest ? "; use smaller numbers" : "; write `rest` for the part that takes the remainder");
  }
  std::vector<std::int64_t> bounds{0};
  for (const std::optional<std::int64_t> count : counts)
    bounds.push_back(bounds.back() + count.value_or(data.documents() - sum));
  return bounds;
}

std::vector<std::uint32_t> shuffled_documents(std::int64_t documents, std::uint32_t seed) {
  require(documents <= UINT32_MAX, "cannot shuffle ", documents, " documents; the limit is 2^32 - 1");
  std::vector<std::uint32_t> order(documents);
  std::iota(order.begin(), order.end(), 0U);
  NumpyRandom(seed).shuffle(std::span(order));
  return order;
}

std::vector<std::int64_t> sample_documents(std::int64_t documents, std::int64_t count, std::uint32_t seed) {
  require(count <= documents, "cannot draw ", count, " of ", documents, " documents");
  std::mt19937_64 engine(seed);
  // Floyd's algorithm: each draw is from documents 0 to `last`. If the drawn document is already in the set, insert
  // `last` instead.
  std::set<std::int64_t> drawn;
  for (std::int64_t last = documents - count; last < documents; ++last) {
    const std::int64_t draw = draw_below(engine, static_cast<std::uint64_t>(last) + 1);
    if (!drawn.insert(draw).second) drawn.insert(last);
  }
  return {drawn.begin(), drawn.end()};
}

}  // namespace mtl
