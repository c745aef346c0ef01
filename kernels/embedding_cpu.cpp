// Forward: threads take rows. Backward: threads take columns, and every thread walks all places in order, so each sum
// has the same order whatever their number.
#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/embedding_cpu.cpp"
#include "kernels/simd.h"
#include "kernels/dropout_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// The row of a table that an index names, or null: no table, or another rank's row.
HWY_INLINE float* row_of(const Tensor& table, std::int64_t index) {
  if (!table.exists() || index < 0 || index >= table.size(0)) return nullptr;
  return table.data<float>() + index * table.size(1);
}

/// Calls body(place, token row, position row) for places [places.begin, places.end).
template <class Body>
HWY_INLINE void over_places(const EmbeddingInput& in, const Tensor& table, const Tensor& position_table, Range places,
                            const Body& body) {
  for (std::int64_t place = places.begin; place < places.end; ++place) {
    float* token_row = row_of(table, in.tokens.data<std::int32_t>()[place] - in.vocab_begin);
    float* position_row = position_table.exists() ? row_of(position_table, in.positions.data<std::int32_t>()[place]) : nullptr;
    body(place, token_row, position_row);
  }
}

void embedding_forward_places(Tensor out, const EmbeddingInput& in, Tensor table, Tensor position_table,
                              const Dropout& dropout, Range places) {
  const std::int64_t length = out.size(1), width = out.size(2);
  const HiddenMask mask(dropout, width);
  over_places(in, table, position_table, places, [&](std::int64_t place, const float* token, const float* position) HWY_ATTR {
    float* to = out.data<float>() + place * width;
    mask.sweep_row(place / length, place % length, {0, width}, [&](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      VecF32 x = token != nullptr ? lanes.load(token + i) : set(0);
      if (position != nullptr) x = hn::Add(x, lanes.load(position + i));
      lanes.store(hn::Mul(x, factor), to + i);
    });
  });
}

void embedding_backward_columns(Tensor dtable, Tensor dposition_table, Tensor dout, const EmbeddingInput& in,
                                const Dropout& dropout, Range columns) {
  const std::int64_t length = dout.size(1), width = dout.size(2);
  const HiddenMask mask(dropout, width);
  over_places(in, dtable, dposition_table, {0, dout.row_count()}, [&](std::int64_t place, float* token, float* position) HWY_ATTR {
    const float* from = dout.data<float>() + place * width;
    mask.sweep_row(place / length, place % length, columns, [&](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      const VecF32 dx = hn::Mul(lanes.load(from + i), factor);
      if (token != nullptr) lanes.store(hn::Add(lanes.load(token + i), dx), token + i);
      if (position != nullptr) lanes.store(hn::Add(lanes.load(position + i), dx), position + i);
    });
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {
HWY_EXPORT(embedding_forward_places);
HWY_EXPORT(embedding_backward_columns);
}  // namespace

void embedding_forward(Stream& stream, Tensor out, const EmbeddingInput& in, Tensor table, Tensor position_table,
                       const Dropout& dropout) {
  parallel_rows(stream.threads(), out.row_count(), out.size(2), [&](Range places) {
    HWY_DYNAMIC_DISPATCH(embedding_forward_places)(out, in, table, position_table, dropout, places);
  });
}

void embedding_backward(Stream& stream, Grad dtable, Grad dposition_table, Tensor dout, const EmbeddingInput& in,
                        const Dropout& dropout) {
  for (const Grad& grad : {dtable, dposition_table}) {
    if (grad.wanted() && grad.mode == GradMode::overwrite) cpu::fill_zero(stream, grad.tensor);
  }
  const Blocks columns{dout.size(2), 64};
  parallel_for(stream.threads(), columns.number(), dout.numel(), [&](std::int64_t block) {
    HWY_DYNAMIC_DISPATCH(embedding_backward_columns)(dtable.tensor, dposition_table.tensor, dout, in, dropout, columns[block]);
  });
}

}  // namespace mtl::cpu
#endif
