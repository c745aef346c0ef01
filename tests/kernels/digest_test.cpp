// The digest of memory, compared with its equation, and what it detects.
#include "kernels/digest.h"

#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns `n` random bytes.
Owned random_bytes(std::int64_t n, unsigned seed) {
  Owned out(DType::u8, {n});
  std::mt19937 generator(seed);
  std::generate_n(out.host<std::uint8_t>(), n, [&] { return static_cast<std::uint8_t>(generator()); });
  return out;
}

/// Returns the equation of digest.h for bytes [begin, begin + n).
std::uint64_t expected_digest(const Owned& data, std::int64_t begin, std::int64_t n) {
  const std::uint8_t* from = data.host<std::uint8_t>() + begin;
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < n; i += 4) {
    std::uint64_t word = 0;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(4, n - i); ++k) word |= std::uint64_t{from[i + k]} << (8 * k);
    sum += word * ((std::uint64_t(i / 4) * 2 + 1) * 0x9E3779B1 & 0xFFFFFFFF);
  }
  return sum;
}

/// Digests on `threads` threads, and adds to `before`.
std::uint64_t digest_of(const Tensor& data, int threads = 1, std::uint64_t before = 0) {
  Stream stream(kDevice, threads);
  Owned sum(DType::i64, {1});
  *sum.host<std::int64_t>() = static_cast<std::int64_t>(before);
  digest(stream, sum, data);
  return static_cast<std::uint64_t>(*sum.host<std::int64_t>());
}

}  // namespace

TEST_CASE("digest: follows its equation at any size and alignment, on any number of threads, and adds to the sum") {
  const Owned data = random_bytes(300000, 1);
  for (const std::int64_t n : {0, 1, 3, 4, 5, 15, 16, 17, 31, 63, 64, 65, 1031, 65536, 65539, 131071, 299980}) {
    for (const std::int64_t begin : {0, 1, 2, 4, 8, 15, 16}) {
      CAPTURE(n);
      CAPTURE(begin);
      const std::uint64_t expected = expected_digest(data, begin, n);
      CHECK(digest_of(data.tensor().flat(begin, n)) == expected);
      for (const int threads : {2, 3})
        CHECK(digest_of(data.tensor().flat(begin, n), threads, ~0ull - 5) == expected + (~0ull - 5));
    }
  }
}

TEST_CASE("digest: reads the bytes of any dtype and shape") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Owned data = random_tensor(dtype, {5, 7, 3}, 1);
    const auto bytes = static_cast<std::int64_t>(data.tensor().bytes());
    CHECK(digest_of(data) == digest_of({data.tensor().raw(), DType::u8, {bytes}}));
  }
}

TEST_CASE("digest: every flip of one or two bits, and every exchange of two words, changes it") {
  const std::int64_t n = 37;  // 9 words and a byte
  const Owned data = random_bytes(n, 2);
  const std::uint64_t unchanged = digest_of(data);
  const auto flip = [&](std::int64_t bit) {
    data.host<std::uint8_t>()[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  };
  int unseen = 0;
  for (std::int64_t bit = 0; bit < 8 * n; ++bit) {
    flip(bit);
    CHECK(digest_of(data) != unchanged);
    for (std::int64_t other = 0; other < bit; ++other) {
      flip(other);
      unseen += expected_digest(data, 0, n) == unchanged;
      flip(other);
    }
    flip(bit);
  }
  CHECK(unseen == 0);
  std::uint8_t* bytes = data.host<std::uint8_t>();
  for (std::int64_t word = 4; word + 4 <= n; word += 4) {
    std::swap_ranges(bytes, bytes + 4, bytes + word);
    CHECK(digest_of(data) != unchanged);
    bytes = data.host<std::uint8_t>();
    std::swap_ranges(bytes, bytes + 4, bytes + word);
  }
  CHECK(digest_of(data) == unchanged);
}

TEST_CASE("digest: counts the bytes on meta; another sum throws") {
  Stream stream(Device::meta, 1, kDevice);
  digest(stream, meta({1}, DType::i64), meta({7, 3}, DType::bf16));
  CHECK(stream.counters().bytes == 42);
  CHECK_THROWS_AS(digest(stream, meta({1}), meta({10})), Error);
  CHECK_THROWS_AS(digest(stream, meta({2}, DType::i64), meta({10})), Error);
}
