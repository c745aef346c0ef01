// SHA-256, because the golden files state their hashes in it. FIPS 180-4; for tests only.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/str.h"

namespace mtl {

inline std::string sha256(std::string message) {
  std::array<std::uint32_t, 64> constants;
  std::array<std::uint32_t, 8> state;
  int count = 0;
  for (int n = 2; count < 64; ++n) {  // the first bits of the fractions of cube and square roots of the primes
    bool is_prime = true;
    for (int d = 2; d * d <= n; ++d) is_prime = is_prime && n % d != 0;
    if (!is_prime) continue;
    auto fraction = [](long double root) {
      return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
    };
    if (count < 8) state[static_cast<std::size_t>(count)] = fraction(std::sqrt(static_cast<long double>(n)));
    constants[static_cast<std::size_t>(count++)] = fraction(std::cbrt(static_cast<long double>(n)));
  }
  std::uint64_t bits = message.size() * 8;
  message += '\x80';
  while (message.size() % 64 != 56) message += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) message += static_cast<char>(bits >> shift);
  for (std::size_t block = 0; block < message.size(); block += 64) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = 0;
      for (std::size_t b = 0; b < 4; ++b) w[i] = w[i] << 8 | static_cast<unsigned char>(message[block + 4 * i + b]);
    }
    for (std::size_t i = 16; i < 64; ++i) {
      std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
      std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
      std::uint32_t t1 =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
      std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    std::array<std::uint32_t, 8> add{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += add[i];
  }
  std::string out;
  for (std::uint32_t word : state) out += format("%08x", word);
  return out;
}

/// The bytes of integers as files store them.
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
