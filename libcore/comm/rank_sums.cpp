#include "comm/rank_sums.h"

#include <algorithm>
#include <cstring>

namespace mtl {

namespace {

template <class T>
void add(T* sum, const T* x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += x[i];
}

/// A block at a time, summed aside in the cache: out may be one of the inputs, and is written once.
template <class T>
void sum(std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t count) {
  constexpr std::size_t kBlock = 1024;
  T block[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    std::size_t n = std::min(kBlock, count - begin);
    std::memcpy(block, inputs[0] + begin * sizeof(T), n * sizeof(T));
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const T* x = reinterpret_cast<const T*>(inputs[r]) + begin;
      add(block, x, n);
    }
    std::memcpy(out + begin * sizeof(T), block, n * sizeof(T));
  }
}

}  // namespace

void sum_in_rank_order(DType dtype, std::byte* out, const std::vector<const std::byte*>& inputs, std::size_t bytes) {
  if (dtype == DType::f32) {
    sum<float>(out, inputs, bytes / sizeof(float));
  } else {
    require(dtype == DType::f64, "reductions are for float32 and float64, not ", name_of(dtype));
    sum<double>(out, inputs, bytes / sizeof(double));
  }
}

}  // namespace mtl
