// Forward: threads take rows. Backward: threads take columns, and every thread walks all places in order, so each sum
// has the same order whatever their number.
#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/embedding_cpu.cpp"
#include "kernels/dropout_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

void positions_forward_rows(Tensor x, Tensor positions, Tensor table, const Dropout& dropout, const RowMap& map,
                            Range rows) {
  const std::int64_t width = x.size(1);
  const HiddenMask mask(dropout, map, width);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const float* position = table.data<float>() + positions.data<std::int32_t>()[map.first_row + row] * width;
    float* to = x.data<float>() + row * width;
    mask.sweep_row(row, {0, width}, [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      lanes.store(hn::Mul(hn::Add(lanes.load(to + i), lanes.load(position + i)), factor), to + i);
    });
  }
}

/// x = dropout(x), or dx = dropout'(dx): both are the same product.
void mask_rows(Tensor x, const Dropout& dropout, const RowMap& map, Range rows) {
  const std::int64_t width = x.size(1);
  const HiddenMask mask(dropout, map, width);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* at = x.data<float>() + row * width;
    mask.sweep_row(row, {0, width}, [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      lanes.store(hn::Mul(lanes.load(at + i), factor), at + i);
    });
  }
}

void positions_backward_columns(Tensor dtable, Tensor dx, Tensor positions, const Dropout& dropout, const RowMap& map,
                                Range columns) {
  const std::int64_t width = dx.size(1);
  const HiddenMask mask(dropout, map, width);
  for (std::int64_t row = 0; row < dx.size(0); ++row) {
    float* position = dtable.data<float>() + positions.data<std::int32_t>()[map.first_row + row] * width;
    float* at = dx.data<float>() + row * width;
    mask.sweep_row(row, columns, [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      const VecF32 masked = hn::Mul(lanes.load(at + i), factor);
      lanes.store(masked, at + i);
      lanes.store(hn::Add(lanes.load(position + i), masked), position + i);
    });
  }
}

void embedding_backward_columns(Tensor dtable, Tensor dout, Tensor tokens, std::int64_t vocab_begin, Range columns) {
  const std::int64_t width = dout.size(1);
  for (std::int64_t row = 0; row < dout.size(0); ++row) {
    const std::int64_t token = tokens.data<std::int32_t>()[row] - vocab_begin;
    if (token < 0 || token >= dtable.size(0)) continue;
    float* to = dtable.data<float>() + token * width + columns.begin;
    const float* from = dout.data<float>() + row * width + columns.begin;
    sweep(static_cast<std::size_t>(columns.size()), [=](std::size_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(to + i), lanes.load(from + i)), to + i);
    });
  }
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {
HWY_EXPORT(positions_forward_rows);
HWY_EXPORT(mask_rows);
HWY_EXPORT(positions_backward_columns);
HWY_EXPORT(embedding_backward_columns);

void check_positions(const Tensor& x, const Tensor& positions, const Tensor& table, const RowMap& rows) {
  const std::int32_t* at = positions.data<std::int32_t>() + rows.first_row;
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    require(at[i] >= 0 && at[i] < table.size(0), "embedding: position ", at[i], " is not within the ", table.size(0),
            " of the position table");
  }
}

void apply_mask(Stream& stream, Tensor x, const Dropout& dropout, const RowMap& rows) {
  parallel_rows(stream.threads(), x.size(0), x.size(1), [&](Range some) {
    HWY_DYNAMIC_DISPATCH(mask_rows)(x, dropout, rows, some);
  });
}

/// body(columns) for stretches of the columns that threads share out, after the gradient was cleared if it is new.
template <class Body>
void over_columns(Stream& stream, const Grad& dtable, const Tensor& dout, const Body& body) {
  if (dtable.mode == GradMode::overwrite) cpu::fill_zero(stream, dtable.tensor);
  const Blocks columns{dout.size(1), 64};
  parallel_for(stream.threads(), columns.number(), dout.numel(), [&](std::int64_t block) { body(columns[block]); });
}
}  // namespace

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  const std::int64_t width = out.size(1);
  parallel_rows(stream.threads(), out.size(0), width, [&](Range rows) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t token = tokens.data<std::int32_t>()[row] - vocab_begin;
      float* to = out.data<float>() + row * width;
      if (token < 0 || token >= table.size(0))
        std::fill(to, to + width, 0.0f);
      else
        std::copy_n(table.data<float>() + token * width, width, to);
    }
  });
}

void embedding_backward(Stream& stream, Grad dtable, Tensor dout, Tensor tokens, std::int64_t vocab_begin) {
  over_columns(stream, dtable, dout, [&](Range columns) {
    HWY_DYNAMIC_DISPATCH(embedding_backward_columns)(dtable.tensor, dout, tokens, vocab_begin, columns);
  });
}

void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows) {
  if (!table.exists()) return apply_mask(stream, x, dropout, rows);
  check_positions(x, positions, table, rows);
  parallel_rows(stream.threads(), x.size(0), x.size(1), [&](Range some) {
    HWY_DYNAMIC_DISPATCH(positions_forward_rows)(x, positions, table, dropout, rows, some);
  });
}

void positions_backward(Stream& stream, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout,
                        const RowMap& rows) {
  if (!dtable.wanted()) return apply_mask(stream, dx, dropout, rows);
  check_positions(dx, positions, dtable.tensor, rows);
  over_columns(stream, dtable, dx, [&](Range columns) {
    HWY_DYNAMIC_DISPATCH(positions_backward_columns)(dtable.tensor, dx, positions, dropout, rows, columns);
  });
}

}  // namespace mtl::cpu
#endif
