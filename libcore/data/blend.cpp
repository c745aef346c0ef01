#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "data/sample_order.h"

namespace mtl {
namespace {

constexpr std::int64_t kBlockSamples = 4096;
constexpr std::size_t kLanes = 4;
// The size of two SSE2 registers or one AVX2 register. Neither target has fused multiply-add instructions, so the
// compiler cannot contract a multiplication and a subtraction.
using Lanes [[gnu::vector_size(kLanes * sizeof(double))]] = double;

/// The greedy algorithm's state: a weight and a count per data set. Both arrays are padded to full registers with dummy
/// data sets, which are never chosen.
struct Greedy {
  std::vector<double> weights, counts;

  explicit Greedy(std::span<const double> given) : weights(given.begin(), given.end()), counts(given.size()) {
    const std::size_t padded = (given.size() + kLanes - 1) / kLanes * kLanes;
    weights.resize(padded, 0.0);
    counts.resize(padded, std::numeric_limits<double>::max());
  }

  /// Chooses data sets for samples `first`, `first` + 1, and so on, and writes them to `out`.
  template <class Index>
  [[gnu::always_inline]] inline void step(std::int64_t first, std::span<Index> out) {
    for (std::size_t k = 0; k < out.size(); ++k) {
      const double samples = std::max(double(first + static_cast<std::int64_t>(k)), 1.0);
      constexpr double kLowest = std::numeric_limits<double>::lowest();
      Lanes most = {kLowest, kLowest, kLowest, kLowest}, at = {}, number = {0, 1, 2, 3};
      for (std::size_t d = 0; d < counts.size(); d += kLanes) {
        Lanes weight, count;  // use memcpy, because std::vector<double> is not aligned like Lanes
        std::memcpy(&weight, &weights[d], sizeof weight);
        std::memcpy(&count, &counts[d], sizeof count);
        const Lanes error = weight * samples - count;
        const auto is_more = error > most;
        most = is_more ? error : most;
        at = is_more ? number : at;
        number += double(kLanes);
      }
      const double largest = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
      double first_of_equals = std::numeric_limits<double>::max();
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (most[lane] == largest) first_of_equals = std::min(first_of_equals, at[lane]);
      }
      const std::size_t chosen = first_of_equals;
      out[k] = static_cast<Index>(chosen);
      counts[chosen] += 1.0;
    }
  }
  template <class Index>
  void step_plain(std::int64_t first, std::span<Index> out) {
    step(first, out);
  }
#if defined(__x86_64__)
  template <class Index>
  [[gnu::target("avx2")]] void step_avx2(std::int64_t first, std::span<Index> out) {
    step(first, out);
  }
#endif
  template <class Index>
  void fill(std::int64_t first, std::span<Index> out) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return step_avx2(first, out);
#endif
    step_plain(first, out);
  }
};

/// NumPy's pairwise sum of f64 values. Fewer than 8 values are added in order. Up to 128 values are added in eight
/// interleaved sums r0 .. r7, which are combined as ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)). If up to 7
/// values remain, they are then added in order. More than 128 values are split at n / 2, rounded down to a multiple of
/// 8, and each part is summed recursively.
double numpy_sum(std::span<const double> values) {
  const std::size_t n = values.size();
  if (n > 128) {
    const std::size_t half = n / 2 - n / 2 % 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  double sum = 0;
  std::size_t i = 0;
  if (n >= 8) {
    double r[8];
    for (; i < 8; ++i) r[i] = values[i];
    for (; i + 8 <= n; i += 8) {
      for (std::size_t k = 0; k < 8; ++k) r[k] += values[i + k];
    }
    sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  }
  for (; i < n; ++i) sum += values[i];
  return sum;
}

/// Like std::count, which the compiler does not vectorize, in parts whose counts a T holds.
template <class T>
std::int64_t count_equal(const T* first, const T* last, std::int64_t value) {
  constexpr std::ptrdiff_t kPart = 64;
  std::int64_t count = 0;
  for (; last - first >= kPart; first += kPart) {
    T part = 0;
    for (std::ptrdiff_t i = 0; i < kPart; ++i) part += first[i] == static_cast<T>(value);
    count += part;
  }
  return count + std::count(first, last, static_cast<T>(value));
}

}  // namespace

std::vector<double> normalize_weights(std::span<const double> values) {
  const double sum = numpy_sum(values);
  if (!std::isfinite(sum)) fail(Exit::usage, "the blend weights add up to ", sum, "; make them smaller");
  std::vector<double> out;
  for (const double value : values) out.push_back(value / sum);
  return out;
}

std::int64_t blend_target(std::int64_t size, double weight) {
  return static_cast<std::int64_t>(std::ceil(double(size) * weight));
}

std::int64_t blend_surplus(std::int64_t target) { return static_cast<std::int64_t>(std::ceil(double(target) * 1.005)); }

BlendOrder::BlendOrder(std::size_t datasets, std::int64_t size) : datasets_(datasets), size_(size), counts_(datasets) {
  require(datasets > 0 && size >= 0, "BlendOrder: ", datasets, " data sets, ", size, " samples");
  if (datasets > 65536)
    fail(Exit::usage, "a blend has ", datasets,
         " data sets, more than the limit of 65536; join some with mtl-data merge");
  if (datasets <= 256)
    order_ = BigArray<std::uint8_t>(size, kOrderMemory);
  else
    order_ = BigArray<std::uint16_t>(size, kOrderMemory);
  blocks_.reserve(datasets * (size / kBlockSamples + 1));
}

void BlendOrder::begin_block() { blocks_.insert(blocks_.end(), counts_.begin(), counts_.end()); }

BlendOrder BlendOrder::weighted(std::span<const double> weights, std::int64_t size) {
  BlendOrder order(weights.size(), size);
  Greedy greedy(normalize_weights(weights));
  for (std::int64_t first = 0; first < size; first += kBlockSamples) {
    for (std::size_t d = 0; d < order.datasets_; ++d) order.counts_[d] = static_cast<std::int64_t>(greedy.counts[d]);
    order.begin_block();
    const std::size_t at = first, count = std::min(kBlockSamples, size - first);
    std::visit([&](auto& all) { greedy.fill(first, all.span().subspan(at, count)); }, order.order_);
  }
  for (std::size_t d = 0; d < order.datasets_; ++d) order.counts_[d] = static_cast<std::int64_t>(greedy.counts[d]);
  return order;
}

BlendOrder BlendOrder::exhaustive(std::span<const std::int64_t> sizes) {
  std::int64_t size = 0;
  for (const std::int64_t one : sizes) {
    if (one < 1) fail(Exit::bad_data, "a data set in a blend without weights has no samples");
    size += one;
  }
  BlendOrder order(sizes.size(), size);
  std::vector<double> weights;
  for (const std::int64_t one : sizes) weights.push_back(double(one) / double(size));
  for (std::int64_t index = 0; index < size; ++index) {
    if (index % kBlockSamples == 0) order.begin_block();
    const double samples = std::max(double(index), 1.0);
    double most = std::numeric_limits<double>::lowest();
    std::size_t chosen = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const double error = weights[d] * samples - double(order.counts_[d]);
      if (order.counts_[d] < sizes[d] && error > most) {
        most = error;
        chosen = d;
      }
    }
    std::visit([&](auto& all) { all[index] = static_cast<std::decay_t<decltype(all[index])>>(chosen); }, order.order_);
    ++order.counts_[chosen];
  }
  return order;
}

std::int64_t BlendOrder::dataset(std::int64_t index) const {
  require(index >= 0 && index < size_, "blend: no sample ", index, " of ", size_);
  return std::visit([&](const auto& order) { return std::int64_t{order[index]}; }, order_);
}

std::int64_t BlendOrder::sample(std::int64_t index) const {
  const std::int64_t d = dataset(index), begin = index / kBlockSamples * kBlockSamples;
  const std::int64_t before = blocks_[index / kBlockSamples * datasets_ + d];
  const auto count = [&](const auto& order) { return count_equal(order.data() + begin, order.data() + index, d); };
  return before + std::visit(count, order_);
}

}  // namespace mtl
