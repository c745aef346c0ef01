// The digest of memory: products of 32-bit words, the even and the odd ones of a vector apart, added in 64 bits.
#include <atomic>
#include <numeric>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/digest_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Returns the terms of the words from word `first` to byte `end`, where the data end or a word does.
std::uint64_t digest_words(const std::uint8_t* from, std::int64_t first, std::int64_t end) {
  const hn::ScalableTag<std::uint8_t> d8;
  const hn::Repartition<std::uint32_t, decltype(d8)> d32;
  const hn::Repartition<std::uint64_t, decltype(d8)> d64;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d32));
  const auto factor_of = [](std::int64_t i) { return static_cast<std::uint32_t>(2 * i + 1) * kDigestFactor; };
  const auto next = hn::Set(d32, 2 * kDigestFactor);  // K_i + next = K_(i + 1)
  const auto next_step = hn::Set(d32, 2 * kDigestFactor * static_cast<std::uint32_t>(step));
  auto factors = hn::Add(hn::Mul(hn::Iota(d32, 0), next), hn::Set(d32, factor_of(first)));
  auto even = hn::Zero(d64), odd = even;
  std::int64_t i = first;
  for (; 4 * (i + step) <= end; i += step) {
    const auto words = hn::LoadU(d8, from + 4 * i);
    const auto odd_words = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, words)));
    even = hn::Add(even, hn::MulEven(hn::BitCast(d32, words), factors));
    odd = hn::Add(odd, hn::MulEven(odd_words, hn::Add(factors, next)));
    factors = hn::Add(factors, next_step);
  }
  // Not with SumOfLanes(): in AVX-512, it adds signed numbers, which must not overflow.
  HWY_ALIGN std::uint64_t lanes[HWY_MAX_BYTES / 8];
  hn::Store(hn::Add(even, odd), d64, lanes);
  std::uint64_t sum = std::accumulate(lanes, lanes + hn::Lanes(d64), std::uint64_t{0});
  for (; 4 * i < end; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, from + 4 * i, HWY_MIN(4, end - 4 * i));
    sum += std::uint64_t{word} * factor_of(i);
  }
  return sum;
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {

void digest(Stream& stream, Tensor sum, Tensor data) {
  const Blocks blocks{static_cast<std::int64_t>(data.bytes()), 4 * kSerialElements};
  std::atomic<std::uint64_t> total{0};
  parallel_for(stream.threads(), blocks.number(), blocks.count / 4, [&](std::int64_t block) {
    const Range bytes = blocks[block];
    total += MTL_DISPATCH(digest_words)(static_cast<const std::uint8_t*>(data.raw()), bytes.begin / 4, bytes.end);
  });
  std::int64_t& value = *sum.data<std::int64_t>();
  value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) + total);
}

}  // namespace mtl::cpu
#endif
