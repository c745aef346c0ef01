// Processes one row at a time, in one pass over memory. A row's angles stay in L1 while we rotate all its heads.
#include <cmath>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/rotary_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

struct Pair {
  VecF32 a, b;
};

/// Forms a pair from elements i and i + pairs in a head.
struct Halves {
  std::size_t pairs;

  template <class T, class Lanes>
  HWY_INLINE Pair load(const T* head, std::size_t i, Lanes lanes) const {
    return {lanes.load(head + i), lanes.load(head + pairs + i)};
  }
  template <class T, class Lanes>
  HWY_INLINE void store(const Pair& pair, T* head, std::size_t i, Lanes lanes) const {
    lanes.store(pair.a, head + i);
    lanes.store(pair.b, head + pairs + i);
  }
};

/// Pairs (2 i, 2 i + 1).
struct Interleaved {
  static constexpr std::size_t kMost = 2 * HWY_MAX_BYTES / sizeof(float);  // elements in a vector of pairs

  HWY_INLINE Pair load(const float* head, std::size_t i, FullLanes) const {
    Pair pair;
    hn::LoadInterleaved2(F32(), head + 2 * i, pair.a, pair.b);
    return pair;
  }
  HWY_INLINE void store(const Pair& pair, float* head, std::size_t i, FullLanes) const {
    hn::StoreInterleaved2(pair.a, pair.b, F32(), head + 2 * i);
  }
  /// Widens 16-bit elements in order, then deinterleaves them.
  template <class T>
  HWY_INLINE Pair load(const T* head, std::size_t i, FullLanes lanes) const {
    HWY_ALIGN float both[kMost];
    const std::size_t step = hn::Lanes(F32());
    store_vector(load_vector(head + 2 * i), both);
    store_vector(load_vector(head + 2 * i + step), both + step);
    return load(both, 0, lanes);
  }
  template <class T>
  HWY_INLINE void store(const Pair& pair, T* head, std::size_t i, FullLanes lanes) const {
    HWY_ALIGN float both[kMost];
    const std::size_t step = hn::Lanes(F32());
    store(pair, both, 0, lanes);
    store_vector(load_vector(both), head + 2 * i);
    store_vector(load_vector(both + step), head + 2 * i + step);
  }
  template <class T>
  HWY_INLINE Pair load(const T* head, std::size_t i, PartLanes lanes) const {
    HWY_ALIGN T both[kMost] = {};
    std::memcpy(both, head + 2 * i, 2 * lanes.count * sizeof(T));
    return load(both, 0, FullLanes{});
  }
  template <class T>
  HWY_INLINE void store(const Pair& pair, T* head, std::size_t i, PartLanes lanes) const {
    HWY_ALIGN T both[kMost];
    store(pair, both, 0, FullLanes{});
    std::memcpy(head + 2 * i, both, 2 * lanes.count * sizeof(T));
  }
};

/// Rotates one head by its row's angles. If `sign` is -1, rotates back.
template <class T, class Order>
HWY_INLINE void rotate_head(T* head, const float* cosines, const float* sines, std::size_t pairs, VecF32 sign,
                            const Order& order) {
  sweep(pairs, [&](std::size_t i, auto lanes) HWY_ATTR {
    const auto [a, b] = order.load(head, i, lanes);
    const VecF32 c = lanes.load(cosines + i), s = hn::Mul(sign, lanes.load(sines + i));
    order.store({hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c))}, head, i, lanes);
  });
}

template <class T, class Order>
void rotate_slice(const HeadSlice& heads, const Tensor& angles, float sign, Range rows, const Order& order) {
  const std::int64_t pairs = angles.size(2), groups = heads.tensor.size(2), dim = heads.tensor.size(4);
  const std::int64_t group_stride = heads.tensor.size(3) * dim;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* cosines = angles.data<float>() + row * 2 * pairs;
    T* group = heads.tensor.data<T>() + row * groups * group_stride + heads.first * dim;
    for (std::int64_t g = 0; g < groups; ++g, group += group_stride) {
      for (std::int64_t h = 0; h < heads.count; ++h)
        rotate_head(group + h * dim, cosines, cosines + pairs, pairs, set(sign), order);
    }
  }
}

void rotate_rows(const HeadSlice& heads, Tensor angles, bool interleaved, float sign, Range rows) {
  with_float(heads.tensor.dtype(), [&]<class T>(T) HWY_ATTR {
    if (interleaved) return rotate_slice<T>(heads, angles, sign, rows, Interleaved{});
    rotate_slice<T>(heads, angles, sign, rows, Halves{static_cast<std::size_t>(angles.size(2))});
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

void rotate(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved, float sign) {
  const std::int64_t width = heads.tensor.size(2) * heads.count * 2 * angles.size(2);
  parallel_rows(stream.threads(), angles.size(0), width, [&](Range rows) {
    MTL_DISPATCH(rotate_rows)(heads, angles, interleaved, sign, rows);
  });
}

/// The cost to compute an angle's sine and cosine, in elements of work (kernels/parallel.h).
constexpr std::int64_t kElementsPerAngle = 64;
}  // namespace

void rotary_angles(Stream& stream, Tensor out, Tensor positions, const RotaryFrequencies& frequencies) {
  const int pairs = frequencies.pairs;
  parallel_rows(stream.threads(), out.size(0), kElementsPerAngle * pairs, [&](Range rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const double position = positions.data<std::int32_t>()[row];
      float* to = out.data<float>() + row * 2 * pairs;
      for (int i = 0; i < pairs; ++i) {
        const double angle = position * frequencies.values[i];
        to[i] = static_cast<float>(frequencies.scale * std::cos(angle));
        to[pairs + i] = static_cast<float>(frequencies.scale * std::sin(angle));
      }
    }
  });
}

void rotary_forward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  rotate(stream, heads, angles, interleaved, 1);
}

void rotary_backward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  rotate(stream, heads, angles, interleaved, -1);
}

}  // namespace mtl::cpu
#endif
