#include "comm/rank_sums.h"

#include <algorithm>
#include <cstring>

namespace mtl {

namespace {

template <class T>
void add(T* sum, const T* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += x[i];
}

template <class T>
void take_max(T* most, const T* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) most[i] = (x[i] > most[i] || x[i] != x[i]) ? x[i] : most[i];
}

/// A block at a time, summed aside in the cache: out may be one of the inputs, and is written once.
template <class T>
void reduce(Reduce how, std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t count) {
  constexpr std::size_t kBlock = 1024;
  T block[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    std::size_t n = std::min(kBlock, count - begin);
    std::memcpy(block, inputs[0] + begin * sizeof(T), n * sizeof(T));
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const T* x = reinterpret_cast<const T*>(inputs[r]) + begin;
      how == Reduce::sum ? add(block, x, n) : take_max(block, x, n);
    }
    std::memcpy(out + begin * sizeof(T), block, n * sizeof(T));
  }
}

}  // namespace

void reduce_in_rank_order(DType dtype, Reduce how, std::byte* out, const std::vector<const std::byte*>& inputs,
                          std::size_t bytes) {
  if (dtype == DType::f32) {
    reduce<float>(how, out, inputs, bytes / sizeof(float));
  } else {
    require(dtype == DType::f64, "reductions are for float32 and float64, not ", name_of(dtype));
    reduce<double>(how, out, inputs, bytes / sizeof(double));
  }
}

}  // namespace mtl
