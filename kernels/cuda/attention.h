// Helpers that all attention kernels share: where each head is stored, which keys a query sees, and dropout on
// probabilities.
#pragma once

#include <cstdint>

#include "device/philox.h"
#include "kernels/attention.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

/// A head's rows, at consecutive positions. `stride` is in elements; a row has `dim`.
template <class T>
struct RowsOfHead {
  T* first;
  std::int64_t stride;
  int dim;
};

/// Locates the heads in a slice, or in attention's output. `sequence`, `position` and `group` are strides in elements.
template <class T>
struct Heads {
  T* first = nullptr;
  std::int64_t sequence = 0, position = 0, group = 0;
  int dim = 0;

  Heads() = default;
  explicit Heads(const HeadSlice& slice)
      : first(slice.tensor.data<T>() + slice.first * slice.tensor.size(4)),
        dim(static_cast<int>(slice.tensor.size(4))) {
    group = slice.tensor.size(3) * dim;
    position = slice.tensor.size(2) * group;
    sequence = slice.tensor.size(1) * position;
  }
  Heads(const Tensor& out, const AttentionSizes& sizes) : first(out.data<T>()), dim(static_cast<int>(sizes.dim)) {
    group = sizes.heads * dim;
    position = sizes.groups * group;
    sequence = sizes.queries * position;
  }
  /// Returns the address of a head's D elements: head `h` in group `g`, at position `t` in sequence `b`.
  __device__ T* at(int b, int g, int h, std::int64_t t) const {
    return first + b * sequence + t * position + g * group + std::int64_t{h} * dim;
  }
  /// Returns that head's rows from position `t` on.
  __device__ RowsOfHead<T> rows(int b, int g, int h, std::int64_t t = 0) const {
    return {at(b, g, h, t), position, dim};
  }
};

/// Draws the attention masks of kernels/dropout.h.
struct ProbabilityDropout {
  bool active = false;
  PhiloxKey key{};
  const std::int64_t* samples = nullptr;  // (B)
  std::uint64_t first_head = 0, row_tiles = 0, column_tiles = 0;
  std::uint32_t threshold = 0;
  float scale = 1;

  ProbabilityDropout() = default;
  explicit ProbabilityDropout(const AttentionInput& in) {
    if (!in.dropout.active()) return;
    threshold = attention_dropout_threshold(in.dropout.probability);
    active = threshold > 0;
    key = in.dropout.key;
    samples = in.rows.samples.data<std::int64_t>();
    first_head = static_cast<std::uint64_t>(in.first_head);
    row_tiles = static_cast<std::uint64_t>((in.rows.seq_length() + 15) / 16);
    column_tiles = static_cast<std::uint64_t>((in.rows.seq_length() + 31) / 32);
    scale = 256.0f / static_cast<float>(256 - threshold);
  }
  /// Draws random bytes for the elements that `lane` holds in a tile's fragment.
  __device__ std::array<std::uint32_t, 4> draw(int sequence, int head, int row_tile, int column_tile, int lane) const {
    const std::uint64_t tile =
        ((first_head + static_cast<std::uint64_t>(head)) * row_tiles + static_cast<std::uint64_t>(row_tile)) *
            column_tiles +
        static_cast<std::uint64_t>(column_tile);
    return philox(key, static_cast<std::uint64_t>(samples[sequence]), tile * 32 + lane);
  }
  /// Returns the factor selected by byte `i` of `word`, where byte 0 is the lowest: 0 to drop the element, otherwise
  /// the scale.
  __device__ float factor(std::uint32_t word, int i) const {
    return (word >> (8 * i) & 255) >= threshold ? scale : 0.0f;
  }
  /// Returns one element's factor. Draws all four words for this one element.
  __device__ float factor_at(int sequence, int head, int row, int column) const {
    const auto words = draw(sequence, head, row / 16, column / 32, 4 * (row % 8) + column % 8 / 2);
    const int j = column % 32 / 8;  // not indexed, so that `words` stays in registers
    const std::uint32_t low = j == 0 ? words[0] : words[1], high = j == 2 ? words[2] : words[3];
    return factor(j < 2 ? low : high, row % 16 / 8 * 2 + column % 2);
  }
};

/// Keys [first, end). Empty if first >= end.
struct KeyRange {
  int first, end;
};

/// A call's sizes, masks and dropout: all arguments that do not depend on the dtype. Queries and keys may be parts of
/// sequences; UndividedShape is for those that are not.
struct AttentionShape {
  int batch, queries, keys, groups, heads, dim;  // heads: per group
  std::int64_t first_row, window;
  SequencePart part, key_part;
  const std::int32_t *past, *document_start;  // null if absent
  float scale;
  ProbabilityDropout dropout;

  explicit AttentionShape(const AttentionInput& in)
      : first_row(in.rows.first_row),
        window(in.window),
        part(in.rows.part),
        key_part(in.key_part),
        scale(in.scale),
        dropout(in) {
    const AttentionSizes sizes = in.sizes();
    batch = static_cast<int>(sizes.batch);
    queries = static_cast<int>(sizes.queries);
    keys = static_cast<int>(sizes.keys);
    groups = static_cast<int>(sizes.groups);
    heads = static_cast<int>(sizes.heads);
    dim = static_cast<int>(sizes.dim);
    past = in.past.exists() ? in.past.data<std::int32_t>() : nullptr;
    document_start = in.document_start.exists() ? in.document_start.data<std::int32_t>() : nullptr;
  }
  /// Returns the keys that query `t` sees in sequence `b`. They are consecutive, also if they are part of a sequence.
  /// Clamps the range to existing keys, because `past` and `document_start` are not validated.
  __device__ KeyRange visible(int b, int t) const {
    const std::int64_t own = (past == nullptr ? first_row : std::int64_t{past[b]}) + part.position(t, queries);
    std::int64_t first = document_start == nullptr ? 0 : document_start[std::int64_t{b} * queries + t];
    if (window > 0 && own - window + 1 > first) first = own - window + 1;
    return {key_from(first), key_from(own + 1)};
  }
  /// Return the first key and the first query that are not before `position`.
  __device__ int key_from(std::int64_t position) const {
    return static_cast<int>(key_part.rows_before(position, keys));
  }
  __device__ int query_from(std::int64_t position) const {
    return static_cast<int>(part.rows_before(position - first_row, queries));
  }
  /// Return the positions of a query, without `past`, and of a key.
  __device__ int position(int t) const { return static_cast<int>(first_row + part.position(t, queries)); }
  __device__ int key_position(int s) const { return static_cast<int>(key_part.position(s, keys)); }
  /// Returns one element's dropout factor, or 1 if dropout is off.
  __device__ float dropout_factor(int b, int head, int t, int s) const {
    return dropout.active ? dropout.factor_at(b, head, position(t), key_position(s)) : 1;
  }
  /// Returns the number of query rows (b, g, h, t), with t fastest, as in logsumexp.
  constexpr std::int64_t rows() const { return std::int64_t{batch} * groups * heads * queries; }
};

/// A call without `past` whose queries and keys are not parts of sequences: positions are row numbers, which need no 64
/// bits and no chunks. The members hide those of AttentionShape.
struct UndividedShape : AttentionShape {
  int first_query, reach;  // the position of query 0; to how many keys a query attends at most

  explicit UndividedShape(const AttentionInput& in)
      : AttentionShape(in),
        first_query(static_cast<int>(first_row)),
        reach(window > 0 && window < keys ? static_cast<int>(window) : keys) {}
  __device__ KeyRange visible(int b, int t) const {
    const int end = first_query + t + 1;
    int first = document_start == nullptr ? 0 : document_start[std::int64_t{b} * queries + t];
    first = first > end - reach ? first : end - reach;
    return {first < 0 ? 0 : first < keys ? first : keys, end < keys ? end : keys};
  }
  __device__ int query_from(std::int64_t position) const {
    const std::int64_t query = position - first_query;
    return query < 0 ? 0 : query < queries ? static_cast<int>(query) : queries;
  }
  __device__ int position(int t) const { return first_query + t; }
  __device__ int key_position(int s) const { return s; }
};

/// The forward pass's arguments.
template <class T, class Shape = AttentionShape>
struct ForwardOperands {
  Shape shape;
  Heads<T> q, k, v, out;
  float* logsumexp;  // null if absent

  ForwardOperands(const AttentionInput& in, const Tensor& out_rows, const Tensor& logsumexp_rows)
      : shape(in),
        q(in.qkv.q),
        k(in.qkv.k),
        v(in.qkv.v),
        out(out_rows, in.sizes()),
        logsumexp(logsumexp_rows.exists() ? logsumexp_rows.data<float>() : nullptr) {}
};

/// The backward pass's arguments.
template <class T, class Shape = AttentionShape>
struct BackwardOperands {
  Shape shape;
  Heads<T> q, k, v, out, dout, dq, dk, dv;
  const float* logsumexp;
  float* delta;  // rowsum(dout * out), laid out like logsumexp; the dq kernel writes it, the dk and dv kernel reads it

  BackwardOperands(const AttentionInput& in, const Qkv& grads, const Tensor& dout_rows, const Tensor& out_rows,
                   const Tensor& logsumexp_rows, float* delta_rows)
      : shape(in),
        q(in.qkv.q),
        k(in.qkv.k),
        v(in.qkv.v),
        out(out_rows, in.sizes()),
        dout(dout_rows, in.sizes()),
        dq(grads.q),
        dk(grads.k),
        dv(grads.v),
        logsumexp(logsumexp_rows.data<float>()),
        delta(delta_rows) {}
};

/// The indices that identify one of the AttentionShape::rows() rows.
struct QueryRow {
  int b, g, h, t;  // h is the index within the group
  __device__ QueryRow(const AttentionShape& shape, std::int64_t row) {
    t = static_cast<int>(row % shape.queries);
    const int head = static_cast<int>(row / shape.queries);
    h = head % shape.heads;
    g = head / shape.heads % shape.groups;
    b = head / shape.heads / shape.groups;
  }
};

}  // namespace mtl::cuda
