// Forward is parallel over rows. Backward is parallel over columns. In backward, every thread visits all places in
// order, so the summation order does not depend on the thread count.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu.h"
#include "kernels/embedding_cpu.h"

#define MTL_SIMD_FILE "kernels/embedding_cpu.cpp"
#include "kernels/dropout_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Calls add(place, to) for every place. Places that share a row are visited in order. add() must accumulate the
/// place's `columns` into `to`. For an fp32 table, `to` is the table row itself. Otherwise `to` is an fp32 sum, which
/// we round after the row's last place.
template <class Add>
HWY_INLINE void scatter(Tensor dtable, const Places& places, Range columns, const Add& add) {
  const std::int64_t width = dtable.size(1), table_rows = dtable.size(0);
  if (dtable.dtype() == DType::f32) {
    float* table = dtable.data<float>() + columns.begin;
    for (std::int64_t place = 0; place < places.number; ++place) {
      const std::int64_t row = places.row(place);
      if (row >= 0 && row < table_rows) add(place, table + row * width);
    }
    return;
  }
  with_float(dtable.dtype(), [&]<class G>(G) HWY_ATTR {
    HWY_ALIGN float sums[kScatterColumns];
    const std::size_t count = columns.size();
    for (std::int64_t n = 0; n < places.in_table;) {
      const std::uint64_t row = places.sorted[n] >> 32;
      G* to = dtable.data<G>() + static_cast<std::int64_t>(row) * width + columns.begin;
      sweep(count, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(to + i), sums + i); });
      for (; n < places.in_table && places.sorted[n] >> 32 == row; ++n)
        add(static_cast<std::int64_t>(places.sorted[n] & 0xFFFFFFFFu), sums);
      sweep(count, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(sums + i), to + i); });
    }
  });
}

/// The result has dtype S, the table T.
void embedding_forward_rows(Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table, Range rows) {
  with_stream(out.dtype(), table.dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::int64_t width = out.size(1);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t token = tokens.data<std::int32_t>()[row] - vocab_begin;
      S* to = out.data<S>() + row * width;
      const T* from = table.data<T>() + token * width;
      if (token < 0 || token >= table.size(0))
        std::fill(to, to + width, S{});
      else if constexpr (std::is_same_v<S, T>)
        std::copy_n(from, width, to);
      else
        sweep(width, [=](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(from + i), to + i); });
    }
  });
}

void positions_forward_rows(Tensor x, Tensor positions, Tensor table, const Dropout& dropout, const RowMap& map,
                            Range rows) {
  with_stream(x.dtype(), table.dtype(), [&]<class S, class T>(S, T) HWY_ATTR {
    const std::int64_t width = x.size(1);
    const HiddenMask mask(dropout, map, width);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const T* position = table.data<T>() + positions.data<std::int32_t>()[map.first_row + row] * width;
      S* to = x.data<S>() + row * width;
      mask.sweep_row(row, {0, width}, [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
        lanes.store(hn::Mul(hn::Add(lanes.load(to + i), lanes.load(position + i)), factor), to + i);
      });
    }
  });
}

/// x = dropout(x). Also computes dx = dropout'(dx), which multiplies by the same mask.
void mask_rows(Tensor x, const Dropout& dropout, const RowMap& map, Range rows) {
  const std::int64_t width = x.size(1);
  const HiddenMask mask(dropout, map, width);
  with_float(x.dtype(), [&]<class S>(S) HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      S* at = x.data<S>() + row * width;
      mask.sweep_row(row, {0, width}, [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
        lanes.store(hn::Mul(lanes.load(at + i), factor), at + i);
      });
    }
  });
}

/// Masks a place's columns in dx, and adds them to the place's table row.
template <class S>
struct MaskAndAdd {
  S* dx;
  std::int64_t width;
  const HiddenMask& mask;
  Range columns;

  HWY_INLINE void operator()(std::int64_t place, float* to) const {
    S* at = dx + place * width;
    const std::size_t begin = columns.begin;
    mask.sweep_row(place, columns, [=](std::size_t i, auto lanes, VecF32 factor) HWY_ATTR {
      const VecF32 masked = hn::Mul(lanes.load(at + i), factor);
      lanes.store(masked, at + i);
      lanes.store(hn::Add(lanes.load(to + (i - begin)), masked), to + (i - begin));
    });
  }
};

/// Adds a place's columns in dout to the place's table row. `dout` points to the first of these columns.
template <class D>
struct AddPlace {
  const D* dout;
  std::int64_t width;
  std::size_t count;

  HWY_INLINE void operator()(std::int64_t place, float* to) const {
    const D* from = dout + place * width;
    sweep(count, [=](std::size_t i, auto lanes)
                     HWY_ATTR { lanes.store(hn::Add(lanes.load(to + i), lanes.load(from + i)), to + i); });
  }
};

void positions_backward_columns(Tensor dtable, Tensor dx, const Places& places, const Dropout& dropout,
                                const RowMap& map, Range columns) {
  const HiddenMask mask(dropout, map, dx.size(1));
  with_float(dx.dtype(), [&]<class S>(S) HWY_ATTR {
    scatter(dtable, places, columns, MaskAndAdd<S>{dx.data<S>(), dx.size(1), mask, columns});
  });
}

void embedding_backward_columns(Tensor dtable, Tensor dout, const Places& places, Range columns) {
  with_float(dout.dtype(), [&]<class D>(D) HWY_ATTR {
    const D* from = dout.data<D>() + columns.begin;
    scatter(dtable, places, columns, AddPlace<D>{from, dout.size(1), static_cast<std::size_t>(columns.size())});
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

void check_positions(const Tensor& x, const Tensor& positions, const Tensor& table, const RowMap& rows) {
  const std::int32_t* at = positions.data<std::int32_t>() + rows.first_row;
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    require(at[i] >= 0 && at[i] < table.size(0), "embedding: position ", at[i], " is outside of the position table of ",
            table.size(0), " rows");
  }
}

void apply_mask(Stream& stream, Tensor x, const Dropout& dropout, const RowMap& rows) {
  parallel_rows(stream.threads(), x.size(0), x.size(1), [&](Range block) {
    MTL_DISPATCH(mask_rows)(x, dropout, rows, block);
  });
}

/// Sorts the places by row, so that scatter() can write to a table that is not fp32. Skips places whose row is outside
/// the table.
void sort_places(Places& places, const Tensor& work, const Tensor& dtable) {
  if (dtable.dtype() == DType::f32) return;
  auto* keys = work_as<std::uint64_t>(work);
  for (std::int64_t place = 0; place < places.number; ++place) {
    const std::int64_t row = places.row(place);
    if (row >= 0 && row < dtable.size(0))
      keys[places.in_table++] = static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(place);
  }
  std::sort(keys, keys + places.in_table);
  places.sorted = keys;
}

/// Clears the gradient if it is to be overwritten, then calls body(columns) for column blocks in parallel.
template <class Body>
void over_columns(Stream& stream, const Grad& dtable, const Tensor& dout, const Body& body) {
  if (dtable.mode == GradMode::overwrite) cpu::fill_zero(stream, dtable.tensor);
  const Blocks columns{dout.size(1), kScatterColumns};
  parallel_for(stream.threads(), columns.number(), dout.numel(), [&](std::int64_t block) { body(columns[block]); });
}
}  // namespace

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  parallel_rows(stream.threads(), out.size(0), out.size(1), [&](Range rows) {
    MTL_DISPATCH(embedding_forward_rows)(out, tokens, vocab_begin, table, rows);
  });
}

void embedding_backward(Stream& stream, Tensor work, Grad dtable, Tensor dout, Tensor tokens,
                        std::int64_t vocab_begin) {
  Places places{.rows = tokens.data<std::int32_t>(), .begin = vocab_begin, .number = dout.size(0)};
  sort_places(places, work, dtable.tensor);
  over_columns(stream, dtable, dout, [&](Range columns) {
    MTL_DISPATCH(embedding_backward_columns)(dtable.tensor, dout, places, columns);
  });
}

void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows) {
  if (!table.exists()) return apply_mask(stream, x, dropout, rows);
  check_positions(x, positions, table, rows);
  parallel_rows(stream.threads(), x.size(0), x.size(1), [&](Range block) {
    MTL_DISPATCH(positions_forward_rows)(x, positions, table, dropout, rows, block);
  });
}

void positions_backward(Stream& stream, Tensor work, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout,
                        const RowMap& rows) {
  if (!dtable.wanted()) return apply_mask(stream, dx, dropout, rows);
  check_positions(dx, positions, dtable.tensor, rows);
  Places places{.rows = positions.data<std::int32_t>() + rows.first_row, .begin = 0, .number = dx.size(0)};
  sort_places(places, work, dtable.tensor);
  over_columns(stream, dtable, dx, [&](Range columns) {
    MTL_DISPATCH(positions_backward_columns)(dtable.tensor, dx, places, dropout, rows, columns);
  });
}

std::size_t scatter_work(const Stream&, Tensor dtable, std::int64_t places) {
  return dtable.dtype() == DType::f32 ? 0 : places * sizeof(std::uint64_t);
}

std::size_t positions_work(const Stream& stream, Tensor dtable, std::int64_t places, const RowMap&) {
  return cpu::scatter_work(stream, dtable, places);
}

}  // namespace mtl::cpu
#endif
