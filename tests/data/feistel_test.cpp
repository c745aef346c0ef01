#include "data/feistel.h"

#include <set>

#include "base/error.h"
#include "data/sample_order.h"
#include "tests/data/golden.h"

using namespace mtl;

namespace {

SampleOrder order_of(const std::vector<std::int32_t>& lengths, std::int64_t seq_length, std::int64_t samples,
                     std::int64_t seed = 1) {
  const auto count = static_cast<std::int64_t>(lengths.size());
  return SampleOrder({lengths.data(), count}, {.kind = OrderKind::feistel,
                                               .seq_length = seq_length,
                                               .seed = seed,
                                               .range = {0, count},
                                               .samples = samples,
                                               .name = "test"});
}

}  // namespace

TEST_CASE("a keyed permutation maps to every number once") {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097, 65537, 100000}) {
    CAPTURE(n);
    for (const std::uint64_t key : {0ull, 1ull, 0x123456789abcdefull}) {
      const KeyedPermutation permute(n, key);
      std::vector<bool> seen(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = permute(i);
        REQUIRE(at >= 0);
        REQUIRE(at < n);
        REQUIRE_FALSE(seen[static_cast<std::size_t>(at)]);
        seen[static_cast<std::size_t>(at)] = true;
      }
    }
  }
  const KeyedPermutation large(std::int64_t{1} << 61, 7);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) CHECK(seen.insert(large(i)).second);
  CHECK_THROWS_AS(KeyedPermutation(0, 1), Error);
  CHECK_NOTHROW(KeyedPermutation(INT64_C(1) << 62, 1));
  CHECK_THROWS_AS(KeyedPermutation((INT64_C(1) << 62) + 1, 1), Error);
}

TEST_CASE("images of a keyed permutation look random") {
  // Permutes consecutive numbers and counts the results in bins. With 99 degrees of freedom, chi-square is within [55,
  // 155] with probability 1 - 10^-4.
  constexpr std::int64_t kSize = 1'000'000, kBins = 100, kDraws = 20'000;
  for (const std::uint64_t key : {1ull, 2ull, 3ull, 4ull}) {
    const KeyedPermutation permute(kSize, key), other(kSize, key + 1000);
    for (const std::int64_t begin : {0, 500'000}) {
      std::vector<double> bins(kBins), steps(kBins);
      std::int64_t agreements = 0;
      for (std::int64_t i = begin; i < begin + kDraws; ++i) {
        ++bins[static_cast<std::size_t>(permute(i) * kBins / kSize)];
        // The distance between images of adjacent numbers.
        const std::int64_t step = (permute(i + 1) - permute(i) + kSize) % kSize;
        ++steps[static_cast<std::size_t>(step * kBins / kSize)];
        agreements += permute(i) == other(i);
      }
      const auto chi_square = [](const std::vector<double>& counts) {
        double sum = 0;
        const double mean = static_cast<double>(kDraws) / kBins;
        for (const double count : counts) sum += (count - mean) * (count - mean) / mean;
        return sum;
      };
      CHECK(chi_square(bins) > 55);
      CHECK(chi_square(bins) < 155);
      CHECK(chi_square(steps) > 55);
      CHECK(chi_square(steps) < 155);
      CHECK(agreements <= 4);  // another key gives another permutation
    }
  }
}

TEST_CASE("the feistel order returns every cut of an epoch once, and no token twice") {
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < 303; ++i) lengths.push_back(i % 5 == 0 ? 0 : 3 + i * 7 % 23);
  std::int64_t tokens = 0;
  std::vector<std::int64_t> before;
  for (const std::int32_t length : lengths) {
    before.push_back(tokens);
    tokens += length;
  }
  constexpr std::int64_t kLength = 16;
  const std::int64_t per_epoch = (tokens - 1) / kLength;
  const SampleOrder order = order_of(lengths, kLength, 6 * per_epoch - 5);
  CHECK(order.samples() == 6 * per_epoch);
  CHECK(order.epochs() == 6);
  const auto token_of = [&](const TokenLocation& at) {
    const auto documents = static_cast<std::int64_t>(lengths.size());
    CHECK(order.sequence_at(at.position) == at.position % documents);
    return at.position / documents * tokens + before[static_cast<std::size_t>(at.position % documents)] + at.offset;
  };
  std::set<std::int64_t> samples, inputs;
  std::set<std::int64_t> starts;
  for (std::int64_t i = 0; i < order.samples(); ++i) {
    const std::int64_t sample = order.shuffled(i);
    CHECK(sample / per_epoch == i / per_epoch);
    CHECK(samples.insert(sample).second);
    const std::int64_t first = token_of(order.first_token(sample));
    CHECK(token_of(order.last_token(sample)) == first + kLength);
    CHECK(first / tokens == (first + kLength) / tokens);  // a sample never crosses an epoch boundary
    for (std::int64_t k = 0; k < kLength; ++k) CHECK(inputs.insert(first + k).second);
    starts.insert(first % tokens % kLength);
  }
  CHECK(starts.size() > 1);  // the cuts shift from epoch to epoch
  std::set<std::int64_t> offsets;
  const std::vector<std::int32_t> twelve = {12};
  const SampleOrder shifted = order_of(twelve, 4, 200);  // 3 of 12 tokens are left over
  for (std::int64_t sample = 0; sample < shifted.samples(); ++sample)
    offsets.insert(shifted.first_token(sample).offset % 4);
  CHECK(offsets == std::set<std::int64_t>{0, 1, 2, 3});
}

TEST_CASE("the feistel order depends on the seed, not on the number of samples") {
  const std::vector<std::int32_t> lengths(100, 37);
  const SampleOrder few = order_of(lengths, 8, 10), many = order_of(lengths, 8, 2000),
                    other = order_of(lengths, 8, 10, 2);
  std::int64_t equal = 0;
  for (std::int64_t i = 0; i < few.samples(); ++i) {
    CHECK(few.shuffled(i) == many.shuffled(i));
    equal += few.shuffled(i) == other.shuffled(i);
  }
  CHECK(equal < 20);
  // A resumed run needs the same order: splitmix64's first number from 0, and the first samples.
  CHECK(mix_bits(0x9e3779b97f4a7c15u) == 0xe220a8397b1dcdafu);
  std::vector<std::int64_t> first;
  for (const std::int64_t i : {0, 1, 2, 1000, 1001}) {
    const TokenLocation at = many.first_token(many.shuffled(i));
    first.insert(first.end(), {at.position, at.offset});
  }
  CHECK(first == std::vector<std::int64_t>{39, 0, 97, 14, 36, 31, 211, 10, 210, 7});
  CHECK_THROWS_AS(order_of({3}, 8, 1), Error);  // shorter than one sample
  CHECK_THROWS_AS(order_of(lengths, 8, INT64_MAX), Error);
}
