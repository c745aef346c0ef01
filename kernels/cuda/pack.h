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

/// 16 bytes as stored. nvcc needs fewer instructions to take 32-bit members apart than 16-bit ones.
struct alignas(kAccess) [[gnu::may_alias]] Words {
  std::uint32_t of[4];
};

/// `count` elements as stored in memory, which take half of the registers of a Pack if they have 16 bits.
template <class T, int count>
struct StoredPack {
  static constexpr bool kWide = count * sizeof(T) % kAccess == 0;
  static constexpr int kParts = kWide ? static_cast<int>(count * sizeof(T) / kAccess) : 1;
  static constexpr int kInPart = count / kParts, kInWord = static_cast<int>(4 / sizeof(T));
  struct alignas(count * sizeof(T)) Narrow {
    T values[count];
  };
  using Part = std::conditional_t<kWide, Words, Narrow>;
  Part parts[kParts];

  __device__ float operator[](int i) const {
    if constexpr (kWide) {
      const std::uint32_t word = parts[i / kInPart].of[i % kInPart / kInWord];
      if constexpr (kInWord == 1) return from_bits(word);
      if constexpr (kInWord == 2) return i % 2 == 0 ? low_of<T>(word) : high_of<T>(word);
    } else {
      return to_float(parts[0].values[i]);
    }
  }
  __device__ Pack<count> widened() const {
    Pack<count> out;
#pragma unroll
    for (int i = 0; i < count; ++i) out[i] = (*this)[i];
    return out;
  }
};

template <int count, class T>
__device__ StoredPack<T, count> load_stored(const T* from) {
  using S = StoredPack<T, count>;
  expect_aligned(from, sizeof(typename S::Part));
  S out;
#pragma unroll
  for (int p = 0; p < S::kParts; ++p) out.parts[p] = reinterpret_cast<const typename S::Part*>(from)[p];
  return out;
}
template <int count, class T>
__device__ Pack<count> load(const T* from) {
  return load_stored<count>(from).widened();
}

/// Rounds to nearest even.
template <class T, int count>
__device__ StoredPack<T, count> rounded(const Pack<count>& pack) {
  using S = StoredPack<T, count>;
  S out;
  if constexpr (S::kWide) {
#pragma unroll
    for (int i = 0; i < count; i += S::kInWord) {
      std::uint32_t& word = out.parts[i / S::kInPart].of[i % S::kInPart / S::kInWord];
      if constexpr (S::kInWord == 1) word = to_bits(pack[i]);
      if constexpr (S::kInWord == 2) word = pack_pair<T>(pack[i], pack[i + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) out.parts[0].values[i] = from_float<T>(pack[i]);
  }
  return out;
}

/// Calls write(Wide* to, Wide bits) for each 16 bytes of a pack. One instruction stores them: for sm_80 and sm_90a,
/// nvcc 13 stores the elements of a struct one by one if the store is in a loop within a loop. tests/gpu/sass.sh checks
/// the object code.
template <int count, class T, class Write>
__device__ void store_wide(T* to, const StoredPack<T, count>& pack, const Write& write) {
#pragma unroll
  for (int p = 0; p < pack.kParts; ++p) {
    Wide bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bits |= Wide{pack.parts[p].of[i]} << 32 * i;
    write(reinterpret_cast<Wide*>(to) + p, bits);
  }
}

template <int count, class T>
__device__ void store(T* to, const StoredPack<T, count>& pack) {
  using S = StoredPack<T, count>;
  expect_aligned(to, sizeof(typename S::Part));
  if constexpr (S::kWide) {
    store_wide(to, pack, [](Wide* at, Wide bits) { *at = bits; });
  } else {
    *reinterpret_cast<typename S::Part*>(to) = pack.parts[0];
  }
}
/// Rounds to nearest even.
template <int count, class T>
__device__ void store(T* to, const Pack<count>& pack) {
  store(to, rounded<T>(pack));
}

/// Like store(), for results that are larger than L2: what is read again stays there. `to` is not in shared memory.
template <int count, class T>
__device__ void store_streaming(T* to, const Pack<count>& pack) {
  if constexpr (StoredPack<T, count>::kWide) {
    expect_aligned(to, kAccess);
    store_wide(to, rounded<T>(pack), [](Wide* at, Wide bits) { store_streaming(at, bits); });
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
