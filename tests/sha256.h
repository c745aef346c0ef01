// Computes SHA-256 (FIPS 180-4), for comparisons with golden hashes.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/str.h"

namespace mtl {

class Sha256 {
 public:
  Sha256() {
    // The initial state: the first 32 fractional bits of the first 8 primes' square roots. The constants: the first 32
    // fractional bits of the first 64 primes' cube roots.
    int found = 0;
    for (int n = 2; found < 64; ++n) {
      bool prime = true;
      for (int d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
      if (!prime) continue;
      if (found < 8) state_[static_cast<std::size_t>(found)] = fraction(std::sqrt(static_cast<long double>(n)));
      constants_[static_cast<std::size_t>(found++)] = fraction(std::cbrt(static_cast<long double>(n)));
    }
  }

  std::string digest(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const std::uint8_t*>(data);
    std::size_t left = bytes;
    for (; left >= 64; left -= 64, at += 64) add_block(at);
    std::uint8_t tail[128] = {};
    if (left > 0) std::memcpy(tail, at, left);
    tail[left] = 0x80;
    const std::size_t size = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; ++i)
      tail[size - 1 - static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(bytes * 8 >> (8 * i));
    for (std::size_t i = 0; i < size; i += 64) add_block(tail + i);
    std::string hex;
    for (const std::uint32_t word : state_) hex += format("%08x", word);
    return hex;
  }

 private:
  static std::uint32_t fraction(long double value) {
    return static_cast<std::uint32_t>((value - std::floor(value)) * 4294967296.0L);
  }

  void add_block(const std::uint8_t* block) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
             std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
    }
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants_[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += add[i];
  }

  std::array<std::uint32_t, 8> state_;
  std::array<std::uint32_t, 64> constants_;
};

inline std::string sha256_hex(const void* data, std::size_t bytes) { return Sha256().digest(data, bytes); }

inline std::string sha256(const std::string& bytes) { return Sha256().digest(bytes.data(), bytes.size()); }

/// Returns the values' bytes in the type `Stored`, as in files. Requires a little-endian machine.
template <class Stored, class Values>
std::string little_endian(const Values& values) {
  std::string out;
  for (auto value : values) {
    auto stored = static_cast<Stored>(value);
    out.append(reinterpret_cast<const char*>(&stored), sizeof stored);
  }
  return out;
}

}  // namespace mtl
