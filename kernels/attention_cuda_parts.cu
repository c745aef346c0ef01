// Adds up the partial dk and dv that the parts of a group's heads have (key_parts() in cuda/tile_order.h), in the order
// of the parts, so that the sums have the same bits each time. Bytes moved: reads the fp32 partials, which have just
// been written and are in L2 if they fit, and writes the gradients once.
#include "kernels/attention_cuda.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/tile_order.h"

namespace mtl::cuda {

namespace {

template <class T>
struct Parts {
  Heads<T> dk, dv;
  const float* partials;  // (B, G, parts, Tk, 2, D)
  int parts, keys, groups;
  float scale;
  std::int64_t packs;  // of dk and dv
};

template <class T>
__global__ void add_parts(const __grid_constant__ Parts<T> f) {
  const int dim = f.dk.dim;
  const std::int64_t part_size = std::int64_t{f.keys} * 2 * dim;
  for (std::int64_t i = first_element(); i < f.packs; i += all_threads()) {
    const int column = static_cast<int>(i % (dim / 4)) * 8;  // of dk and then dv
    const std::int64_t row = i / (dim / 4);
    const int s = static_cast<int>(row % f.keys), group = static_cast<int>(row / f.keys);
    const float* from = f.partials + group * f.parts * part_size + std::int64_t{s} * 2 * dim + column;
    Pack<8> sum = load<8>(from);
#pragma unroll 4  // keeps loads in flight
    for (int part = 1; part < f.parts; ++part) {
      const Pack<8> more = load<8>(from + part * part_size);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] += more[j];
    }
    const bool is_dk = column < dim;
    if (is_dk) {
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] *= f.scale;
    }
    const Heads<T>& to = is_dk ? f.dk : f.dv;
    store(to.at(group / f.groups, group % f.groups, 0, s) + (is_dk ? column : column - dim), sum);
  }
}

}  // namespace

void attention_add_parts(Stream& stream, const BackwardWork& work, const Qkv& grads, const AttentionInput& in) {
  const AttentionSizes s = in.sizes();
  const int parts = key_parts(s);
  if (parts == 1) return;
  with_float_type(grads.k.tensor.dtype(), [&]<class T>(T) {
    const Parts<T> f{.dk = Heads<T>(grads.k),
                     .dv = Heads<T>(grads.v),
                     .partials = work.partials,
                     .parts = parts,
                     .keys = static_cast<int>(s.keys),
                     .groups = static_cast<int>(s.groups),
                     .scale = in.scale,
                     .packs = s.batch * s.groups * s.keys * 2 * s.dim / 8};
    launch(stream, add_parts<T>, flat_shape(f.packs), f);
  });
}

}  // namespace mtl::cuda
