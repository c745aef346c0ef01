// Collectives in progress with their expected results. The seed and rank determine each member's contribution, so every
// rank can compute the result by itself, in rank order, and compare it bit for bit.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "comm/communicator.h"

namespace mtl::test {

inline Stream stream(Device::cpu);

/// The type used to accumulate sums of T.
template <class T>
struct Summed {
  using Type = T;
};
template <>
struct Summed<Bf16> {
  using Type = float;
};
template <>
struct Summed<Half> {
  using Type = float;
};

template <class T>
typename Summed<T>::Type to_summed(T x) {
  if constexpr (std::is_same_v<T, typename Summed<T>::Type>)
    return x;
  else
    return widen(x);
}
template <class T>
T from_summed(typename Summed<T>::Type x) {
  if constexpr (std::is_same_v<T, typename Summed<T>::Type>)
    return x;
  else
    return narrow<T>(x);
}

/// Returns elements determined by seed, rank and index. Their magnitudes vary so that the addition order affects a
/// sum's last bits.
template <class T>
std::vector<T> contribution(std::uint64_t seed, int rank, std::int64_t count) {
  std::vector<T> out(static_cast<std::size_t>(count));
  std::uint64_t state = (seed * 1000 + static_cast<std::uint64_t>(rank)) * 0x9E3779B97F4A7C15u;
  for (T& x : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    using Wide = typename Summed<T>::Type;
    auto wide = static_cast<Wide>(static_cast<std::int32_t>(state >> 32) >> (state >> 60));
    if constexpr (std::is_floating_point_v<Wide>)
      wide /= std::is_same_v<T, Half> ? 3 << 16 : 3;  // the largest f16 is 65504
    x = from_summed<T>(wide);
  }
  return out;
}

template <class T>
Tensor tensor_of(std::vector<T>& values) {
  return {values.data(), dtype_of<T>(), {static_cast<std::int64_t>(values.size())}};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Adds the contributions of `ranks` in the order given, and rounds once. Each has `whole` elements. Returns elements
/// [begin, begin + count) of the sum.
template <class T>
std::vector<T> expected_sum(const std::vector<int>& ranks, std::uint64_t seed, std::int64_t whole, std::int64_t begin,
                            std::int64_t count) {
  std::vector<typename Summed<T>::Type> sums;
  for (int rank : ranks) {
    std::vector<T> other = contribution<T>(seed, rank, whole);
    for (std::int64_t i = 0; i < count; ++i) {
      auto x = to_summed(other[static_cast<std::size_t>(begin + i)]);
      if (rank == ranks[0])
        sums.push_back(x);
      else
        sums[static_cast<std::size_t>(i)] += x;
    }
  }
  std::vector<T> out;
  for (auto sum : sums) out.push_back(from_summed<T>(sum));
  return out;
}

/// A collective in progress, with its operands and expected result. Below, `ranks` lists the group's members by their
/// job ranks, in group order.
class Trial {
 public:
  virtual ~Trial() = default;
  Work work;
  virtual bool is_correct() = 0;
};

template <class T>
struct AllReduceTrial final : Trial {
  AllReduceTrial(Communicator& group, const std::vector<int>& ranks, std::uint64_t seed, std::int64_t count)
      : data(contribution<T>(seed, ranks[static_cast<std::size_t>(group.rank())], count)) {
    expected = expected_sum<T>(ranks, seed, count, 0, count);
    work = group.all_reduce(stream, tensor_of(data));
  }
  bool is_correct() override { return same_bits(data, expected); }
  std::vector<T> data, expected;
};

template <class T>
struct ReduceScatterTrial final : Trial {
  ReduceScatterTrial(Communicator& group, const std::vector<int>& ranks, std::uint64_t seed, std::int64_t count,
                     bool in_place)
      : part(count), rank(group.rank()), is_in_place(in_place), out(static_cast<std::size_t>(count)) {
    std::int64_t whole = count * group.size();
    in = contribution<T>(seed, ranks[static_cast<std::size_t>(rank)], whole);
    before = in;
    expected = expected_sum<T>(ranks, seed, whole, rank * count, count);
    Tensor from = tensor_of(in);
    work = group.reduce_scatter(stream, in_place ? from.flat(rank * count, count) : tensor_of(out), from);
  }
  bool is_correct() override {
    auto own = in.begin() + static_cast<std::ptrdiff_t>(rank * part);
    if (is_in_place) {
      std::copy(own, own + static_cast<std::ptrdiff_t>(part), out.begin());
      std::copy(expected.begin(), expected.end(), before.begin() + static_cast<std::ptrdiff_t>(rank * part));
    }
    return same_bits(out, expected) && same_bits(in, before);
  }
  std::int64_t part;
  int rank;
  bool is_in_place;
  std::vector<T> in, before, out, expected;
};

template <class T>
struct AllGatherTrial final : Trial {
  AllGatherTrial(Communicator& group, const std::vector<int>& ranks, std::uint64_t seed, std::int64_t count,
                 bool in_place)
      : in(contribution<T>(seed, ranks[static_cast<std::size_t>(group.rank())], count)),
        out(static_cast<std::size_t>(count) * ranks.size(), T{77}) {
    for (int rank : ranks) {
      std::vector<T> other = contribution<T>(seed, rank, count);
      expected.insert(expected.end(), other.begin(), other.end());
    }
    Tensor whole = tensor_of(out), own = tensor_of(in);
    if (in_place) {
      own = whole.flat(group.rank() * count, count);
      std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(group.rank() * count));
    }
    work = group.all_gather(stream, whole, own);
  }
  bool is_correct() override { return same_bits(out, expected); }
  std::vector<T> in, out, expected;
};

template <class T>
struct BroadcastTrial final : Trial {
  BroadcastTrial(Communicator& group, const std::vector<int>& ranks, std::uint64_t seed, std::int64_t count, int root)
      : data(contribution<T>(seed, ranks[static_cast<std::size_t>(group.rank())], count)),
        expected(contribution<T>(seed, ranks[static_cast<std::size_t>(root)], count)) {
    work = group.broadcast(stream, tensor_of(data), root);
  }
  bool is_correct() override { return same_bits(data, expected); }
  std::vector<T> data, expected;
};

/// Starts a collective whose kind, element type and size are drawn from `random`. All members must draw the same.
inline std::unique_ptr<Trial> random_trial(Communicator& group, const std::vector<int>& ranks,
                                           std::mt19937_64& random) {
  constexpr std::int64_t kCounts[] = {0, 1, 2, 3, 7, 255, 1000, 2048, 2049, 4097, 33333, 70001};
  std::int64_t count = kCounts[random() % std::size(kCounts)];
  std::uint64_t seed = random() % 100000, kind = random() % 12, option = random();
  bool in_place = option % 2 == 0;
  int root = static_cast<int>(option % static_cast<std::uint64_t>(group.size()));
  switch (kind) {
    case 0:
      return std::make_unique<AllReduceTrial<double>>(group, ranks, seed, count);
    case 1:
      return std::make_unique<ReduceScatterTrial<float>>(group, ranks, seed, count, in_place);
    case 2:
      return std::make_unique<ReduceScatterTrial<double>>(group, ranks, seed, count, in_place);
    case 3:
      return std::make_unique<AllGatherTrial<std::int32_t>>(group, ranks, seed, count, in_place);
    case 4:
      return std::make_unique<AllGatherTrial<std::uint16_t>>(group, ranks, seed, count, in_place);
    case 5:
      return std::make_unique<BroadcastTrial<std::int64_t>>(group, ranks, seed, count, root);
    case 6:
      return std::make_unique<AllReduceTrial<Bf16>>(group, ranks, seed, count);
    case 7:
      return std::make_unique<ReduceScatterTrial<Bf16>>(group, ranks, seed, count, in_place);
    case 8:
      return std::make_unique<AllReduceTrial<Half>>(group, ranks, seed, count);
    case 9:
      return std::make_unique<ReduceScatterTrial<Half>>(group, ranks, seed, count, in_place);
    default:
      return std::make_unique<AllReduceTrial<float>>(group, ranks, seed, count);
  }
}

}  // namespace mtl::test
