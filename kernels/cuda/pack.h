// Packs: neighboring elements that a thread reads or writes together, 16 bytes per access if rows are aligned for it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "device/tensor.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

inline constexpr std::size_t kAccess = 16;

/// `count` elements of float, Bf16 or Half, as fp32 in registers.
template <int count>
struct Pack {
  float values[count];
  __device__ float& operator[](int i) { return values[i]; }
  __device__ float operator[](int i) const { return values[i]; }
};

/// Elements as stored in memory, in pieces of at most 16 bytes.
template <class T, int count>
struct Stored {
  static constexpr std::size_t kBytes = count * sizeof(T);
  static constexpr std::size_t kAlign = kBytes < kAccess ? kBytes : kAccess;
  struct alignas(kAlign) Piece {
    T values[kAlign / sizeof(T)];
  };
  static constexpr int kPieces = static_cast<int>(kBytes / kAlign), kInPiece = count / kPieces;
};

template <int count, class T>
__device__ Pack<count> load(const T* from) {
  using S = Stored<T, count>;
  expect_aligned(from, S::kAlign);
  Pack<count> out;
#pragma unroll
  for (int p = 0; p < S::kPieces; ++p) {
    const typename S::Piece piece = reinterpret_cast<const typename S::Piece*>(from)[p];
#pragma unroll
    for (int i = 0; i < S::kInPiece; ++i) out[p * S::kInPiece + i] = to_float(piece.values[i]);
  }
  return out;
}

__device__ inline std::uint32_t stored_bits(float value) { return to_bits(value); }
__device__ inline std::uint32_t stored_bits(Bf16 value) { return value.bits; }
__device__ inline std::uint32_t stored_bits(Half value) { return value.bits; }

/// Calls write(Wide* to, Wide bits) for each 16 bytes of a pack. One instruction stores them: for sm_80 and sm_90a,
/// nvcc 13 stores the elements of a struct one by one if the store is in a loop within a loop. tests/gpu/sass.sh checks
/// the object code.
template <int count, class T, class Write>
__device__ void store_wide(T* to, const Pack<count>& pack, const Write& write) {
  using S = Stored<T, count>;
#pragma unroll
  for (int p = 0; p < S::kPieces; ++p) {
    Wide bits = 0;
#pragma unroll
    for (int i = 0; i < S::kInPiece; ++i)
      bits |= Wide{stored_bits(from_float<T>(pack[p * S::kInPiece + i]))} << 8 * sizeof(T) * i;
    write(reinterpret_cast<Wide*>(to) + p, bits);
  }
}

/// Rounds to nearest even.
template <int count, class T>
__device__ void store(T* to, const Pack<count>& pack) {
  using S = Stored<T, count>;
  expect_aligned(to, S::kAlign);
  if constexpr (S::kAlign == kAccess) {
    store_wide(to, pack, [](Wide* at, Wide bits) { *at = bits; });
  } else {
    typename S::Piece piece;
#pragma unroll
    for (int i = 0; i < count; ++i) piece.values[i] = from_float<T>(pack[i]);
    *reinterpret_cast<typename S::Piece*>(to) = piece;
  }
}

/// Like store(), for results that are larger than L2: what is read again stays there. `to` is not in shared memory.
template <int count, class T>
__device__ void store_streaming(T* to, const Pack<count>& pack) {
  using S = Stored<T, count>;
  if constexpr (S::kAlign == kAccess) {
    expect_aligned(to, kAccess);
    store_wide(to, pack, [](Wide* at, Wide bits) { store_streaming(at, bits); });
  } else {
    store(to, pack);
  }
}

/// Calls body(std::integral_constant<int, n>()) with n elements per access. n is 8 if every tensor starts at a multiple
/// of 16 bytes and the row stride `row_size`, in elements, is a multiple of 8. Otherwise n is 1. Eight fp32 elements
/// need two accesses.
template <class Body>
void with_pack_size(std::int64_t row_size, std::initializer_list<Tensor> tensors, const Body& body) {
  bool wide = row_size % 8 == 0;
  for (const Tensor& tensor : tensors) wide &= reinterpret_cast<std::uintptr_t>(tensor.raw()) % kAccess == 0;
  if (wide)
    body(std::integral_constant<int, 8>());
  else
    body(std::integral_constant<int, 1>());
}

}  // namespace mtl::cuda
