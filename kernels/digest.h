// A digest of memory, to compare two computations that must give the same bits.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// sum (1) i64 += w_0 K_0 + w_1 K_1 + ... modulo 2^64, where w_i are the 32-bit words of `data`, which may have any
/// dtype, size and alignment; zeros fill up the last word. K_i = (2 i + 1) kDigestFactor modulo 2^32, which is odd.
///
/// An integer sum does not depend on the order, so every device and any number of threads give the same result. A
/// change of one word always changes it: a difference below 2^32 times an odd number is not 0 modulo 2^64. Within 2^31
/// words, whose K_i all differ, so do two flipped bits (2^a K_i + 2^b K_j < 2^64, and 2^a K_i = 2^b K_j takes a = b and
/// i = j) and two exchanged words (0 < |(w_i - w_j) (K_i - K_j)| < 2^64). Other changes cancel only by chance.
///
/// The digests of multiple tensors may be added to one sum. The parts of a tensor give another sum than the whole.
void digest(Stream& stream, Tensor sum, Tensor data);

inline constexpr std::uint32_t kDigestFactor = 0x9E3779B1;  // spreads the K_i over 32 bits; Knuth's hash, 2^32 / 1.618

}  // namespace mtl
