// Copies heads between tensors, or adds them, one element per thread and step. Memory-bound: reads each element once,
// or twice to add, and writes it once.
#include "kernels/cuda.h"
#include "kernels/cuda/flat.h"
#include "kernels/head_slice.h"

namespace mtl::cuda {

namespace {

/// A slice in a tensor (B, T, G, heads, D).
template <class T>
struct PlacedHeads {
  T* first;
  std::int64_t positions;  // T
  int heads;               // in the tensor
  SequencePart part;

  PlacedHeads(const HeadSlice& slice, const SequencePart& of)
      : first(slice.tensor.data<T>() + slice.first * slice.tensor.size(4)),
        positions(slice.tensor.size(1)),
        heads(static_cast<int>(slice.tensor.size(3))),
        part(of) {}
  /// Returns the address of element `i` of group g's heads, at row t of the copied rows.
  __device__ T* at(std::int64_t b, std::int64_t t, std::int64_t rows, int g, int groups, int dim,
                   std::int64_t i) const {
    return first + ((b * positions + part.position(t, rows)) * groups + g) * heads * dim + i;
  }
};

/// The sizes of what is copied: `width` elements of each group, of each of `rows` rows of a sequence.
struct CopiedSizes {
  std::int64_t count, rows;
  int groups, width, dim;
};

template <class To, class From>
__global__ void copy_placed(const __grid_constant__ PlacedHeads<To> to, const __grid_constant__ PlacedHeads<From> from,
                            const __grid_constant__ CopiedSizes size, bool adds) {
  for (std::int64_t i = first_element(); i < size.count; i += all_threads()) {
    const std::int64_t element = i % size.width, group = i / size.width, row = group / size.groups;
    const int g = static_cast<int>(group % size.groups);
    const std::int64_t b = row / size.rows, t = row % size.rows;
    To* out = to.at(b, t, size.rows, g, size.groups, size.dim, element);
    const float value = to_float(*from.at(b, t, size.rows, g, size.groups, size.dim, element));
    *out = from_float<To>(adds ? to_float(*out) + value : value);
  }
}

}  // namespace

void copy_heads(Stream& stream, const HeadSlice& to, const HeadSlice& from, const HeadCopy& how) {
  const Tensor &out = to.tensor, &in = from.tensor;
  CopiedSizes size{.count = 0,
                   .rows = std::min(out.size(1), in.size(1)),
                   .groups = static_cast<int>(out.size(2)),
                   .width = static_cast<int>(to.count * out.size(4)),
                   .dim = static_cast<int>(out.size(4))};
  size.count = out.size(0) * size.rows * size.groups * size.width;
  with_float_type(out.dtype(), [&]<class To>(To) {
    with_float_type(in.dtype(), [&]<class From>(From) {
      launch(stream, copy_placed<To, From>, flat_shape(size.count), PlacedHeads<To>(to, how.to),
             PlacedHeads<From>(from, how.from), size, how.mode == GradMode::accumulate);
    });
  });
}

}  // namespace mtl::cuda
