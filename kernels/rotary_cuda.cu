// Rotations in one pass, (a, b) = (a cos - b sin, b cos + a sin). A thread rotates up to 8 pairs in a head. It finds
// the angles for these pairs in the caches, because all heads at a position share them.
//   rotation   reads and writes 2 * pairs elements of each head; reads 2 * pairs fp32 of each position
//   angles     written once: 2 * pairs fp32 for each position
// Rotations are predicted to be memory-bound. Angles are bound by sines and cosines in fp64, but we compute them only
// once per micro-batch.
#include <numeric>

#include "kernels/cuda.h"
#include "kernels/cuda/flat.h"

namespace mtl::cuda {

namespace {

__global__ void write_angles(float* out, const std::int32_t* positions,
                             const __grid_constant__ RotaryFrequencies frequencies, std::int64_t rows) {
  const int pairs = frequencies.pairs;
  const double* values = frequencies.values.data();
  for (std::int64_t i = first_element(); i < rows * pairs; i += all_threads()) {
    const std::int64_t row = i / pairs;
    const int pair = static_cast<int>(i - row * pairs);
    const double angle = positions[row] * values[pair];
    float* to = out + row * 2 * pairs + pair;
    to[0] = static_cast<float>(frequencies.scale * cos(angle));
    to[pairs] = static_cast<float>(frequencies.scale * sin(angle));
  }
}

/// The heads in a slice. The first starts at `data`. `sign` is -1 to rotate back.
template <class T>
struct Rotation {
  T* data;
  const float* angles;
  std::int64_t rows;
  int groups, count, pairs, dim, group_stride;
  float sign;
};

template <int n>
struct Pairs {
  Pack<n> a, b;
};

/// Loads pairs [i, i + n) from a head. Elements of interleaved pairs are adjacent, so we load multiple pairs as one
/// pack.
template <int n, bool interleaved, class T>
__device__ Pairs<n> load_pairs(const T* head, int i, int pairs) {
  if constexpr (!interleaved || n == 1) {
    return {load<n>(head + (interleaved ? 2 * i : i)), load<n>(head + (interleaved ? 2 * i + 1 : pairs + i))};
  } else {
    const Pack<2 * n> both = load<2 * n>(head + 2 * i);
    Pairs<n> out;
    for (int j = 0; j < n; ++j) {
      out.a[j] = both[2 * j];
      out.b[j] = both[2 * j + 1];
    }
    return out;
  }
}

template <int n, bool interleaved, class T>
__device__ void store_pairs(T* head, int i, int pairs, const Pairs<n>& values) {
  if constexpr (!interleaved || n == 1) {
    store(head + (interleaved ? 2 * i : i), values.a);
    store(head + (interleaved ? 2 * i + 1 : pairs + i), values.b);
  } else {
    Pack<2 * n> both;
    for (int j = 0; j < n; ++j) {
      both[2 * j] = values.a[j];
      both[2 * j + 1] = values.b[j];
    }
    store(head + 2 * i, both);
  }
}

/// Rotates pairs [i, i + n) in a head by its row's angles.
template <int n, bool interleaved, class T>
__device__ void rotate_pair(T* head, const float* angles, int i, int pairs, float sign) {
  const Pack<n> c = load<n>(angles + i), s = load<n>(angles + pairs + i);
  const Pairs<n> in = load_pairs<n, interleaved>(head, i, pairs);
  Pairs<n> out;
  for (int j = 0; j < n; ++j) {
    const float sine = sign * s[j];
    out.a[j] = in.a[j] * c[j] - in.b[j] * sine;
    out.b[j] = in.b[j] * c[j] + in.a[j] * sine;
  }
  store_pairs<n, interleaved>(head, i, pairs, out);
}

template <int n, bool interleaved, class T>
__global__ void rotate_heads(const __grid_constant__ Rotation<T> r) {
  const int packs = r.pairs / n, in_row = r.groups * r.count * packs;
  for (std::int64_t i = first_element(); i < r.rows * in_row; i += all_threads()) {
    const std::int64_t row = i / in_row;
    const int in_this_row = static_cast<int>(i - row * in_row), head = in_this_row / packs;
    const std::int64_t group = row * r.groups + head / r.count;
    rotate_pair<n, interleaved>(r.data + group * r.group_stride + head % r.count * r.dim, r.angles + row * 2 * r.pairs,
                                in_this_row % packs * n, r.pairs, r.sign);
  }
}

void rotate(Stream& stream, const HeadSlice& heads, const Tensor& angles, bool interleaved, float sign) {
  const auto size = [&](int axis) { return static_cast<int>(heads.tensor.size(axis)); };
  const int pairs = static_cast<int>(angles.size(2)), dim = size(4);
  with_float_type(heads.tensor.dtype(), [&]<class T>(T) {
    const Rotation<T> r{heads.tensor.data<T>() + heads.first * dim,
                        angles.data<float>(),
                        angles.size(0),
                        size(2),
                        static_cast<int>(heads.count),
                        pairs,
                        dim,
                        size(3) * dim,
                        sign};
    with_pack_size(std::gcd(pairs, dim), {heads.tensor, angles}, [&]<int n>(std::integral_constant<int, n>) {
      const LaunchShape shape = flat_shape(r.rows * r.groups * r.count * (pairs / n));
      if (interleaved)
        launch(stream, rotate_heads<n, true, T>, shape, r);
      else
        launch(stream, rotate_heads<n, false, T>, shape, r);
    });
  });
}

}  // namespace

void rotary_angles(Stream& stream, Tensor out, Tensor positions, const RotaryFrequencies& frequencies) {
  launch(stream, write_angles, flat_shape(positions.numel() * frequencies.pairs), out.data<float>(),
         positions.data<std::int32_t>(), frequencies, positions.numel());
}

void rotary_forward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  rotate(stream, heads, angles, interleaved, 1);
}

void rotary_backward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  rotate(stream, heads, angles, interleaved, -1);
}

}  // namespace mtl::cuda
