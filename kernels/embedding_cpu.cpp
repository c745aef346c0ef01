// Forward: threads take rows. Backward: threads take columns, and every thread walks all places in order, so each sum
// has the same order whatever their number.
#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/embedding_cpu.cpp"
#include "kernels/dropout_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// The row of a table that an index names, or null: no table, or another rank's row.
HWY_INLINE float* row_of(const Tensor& table, std::int64_t index) {
  if (!table.exists() || index < 0 || index >= table.size(0)) return nullptr;
  return table.data<float>() + index * table.size(1);
}

/// The rows that meet at a place of the batch, in the tables or in their gradients.
struct PlaceRows {
  float* token;
  float* position;
};

HWY_INLINE PlaceRows rows_at(std::int64_t place, const EmbeddingInput& in, const Tensor& table,
                             const Tensor& positions) {
  float* token = row_of(table, in.tokens.data<std::int32_t>()[place] - in.vocab_begin);
  return {token, positions.exists() ? row_of(positions, in.positions.data<std::int32_t>()[place]) : nullptr};
}

void embedding_forward_places(Tensor out, const EmbeddingInput& in, Tensor table, Tensor position_table,
                              const Dropout& dropout, Range places) {
  const std::int64_t length = out.size(1), width = out.size(2);
  const HiddenMask mask(dropout, width);
  for (std::int64_t place = places.begin; place < places.end; ++place) {
    const PlaceRows rows = rows_at(place, in, table, position_table);
    float* to = out.data<float>() + place * width;
    const auto embed = [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      VecF32 x = rows.token != nullptr ? lanes.load(rows.token + i) : set(0);
      if (rows.position != nullptr) x = hn::Add(x, lanes.load(rows.position + i));
      lanes.store(hn::Mul(x, factor), to + i);
    };
    mask.sweep_row(place / length, place % length, {0, width}, embed);
  }
}

void embedding_backward_columns(Tensor dtable, Tensor dposition_table, Tensor dout, const EmbeddingInput& in,
                                const Dropout& dropout, Range columns) {
  const std::int64_t length = dout.size(1), width = dout.size(2);
  const HiddenMask mask(dropout, width);
  for (std::int64_t place = 0; place < dout.row_count(); ++place) {
    const PlaceRows rows = rows_at(place, in, dtable, dposition_table);
    const float* from = dout.data<float>() + place * width;
    const auto scatter = [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      const VecF32 dx = hn::Mul(lanes.load(from + i), factor);
      if (rows.token != nullptr) lanes.store(hn::Add(lanes.load(rows.token + i), dx), rows.token + i);
      if (rows.position != nullptr) lanes.store(hn::Add(lanes.load(rows.position + i), dx), rows.position + i);
    };
    mask.sweep_row(place / length, place % length, columns, scatter);
  }
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
    HWY_DYNAMIC_DISPATCH(embedding_backward_columns)
    (dtable.tensor, dposition_table.tensor, dout, in, dropout, columns[block]);
  });
}

}  // namespace mtl::cpu
#endif
