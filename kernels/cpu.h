// The operators on the CPU, and helpers they share.
#pragma once

#include <variant>

#include "kernels/operators.h"
#include "kernels/parallel.h"

namespace mtl::cpu {

#define MTL_OPERATOR(result, name, parameters) result name parameters;
#include "kernels/operators.inc"

/// Sums over rows. Each block of rows has a partial sum; these are added in order.
inline constexpr std::int64_t kMaxRowSums = 64;
inline Blocks row_sum_blocks(std::int64_t rows) {
  return {rows, std::max<std::int64_t>(16, (rows + kMaxRowSums - 1) / kMaxRowSums)};
}
/// Calls body(Range rows, float* sums) for every block of rows. `sums` (width) is the block's row in `partials`, f32
/// (row_sum_blocks(rows).number(), width), set to zeros, or null if `partials` is absent. `elements` is the total
/// amount of work.
template <class Body>
void for_row_sum_blocks(Stream& stream, const Tensor& partials, std::int64_t rows, std::int64_t width,
                        std::int64_t elements, const Body& body) {
  const Blocks blocks = row_sum_blocks(rows);
  parallel_for(stream.threads(), blocks.number(), elements, [&](std::int64_t block) {
    float* sums = nullptr;
    if (partials.exists()) {
      sums = static_cast<float*>(partials.raw()) + block * width;
      std::fill(sums, sums + width, 0.0f);
    }
    body(blocks[block], sums);
  });
}
/// target (C) = or += the sum of `number` rows of C partial sums, added in order. The rows are `row_stride` elements
/// apart. `target` may have any dtype that operators compute with.
void sum_partials(Stream& stream, Grad target, const float* partials, std::int64_t number, std::int64_t row_stride);

/// Computes some rows of residual_forward().
void residual_forward_rows(Tensor out, const ResidualSum& sum, Range rows);
/// Calls body(Range rows) for all rows of x. If `sum` exists, first writes it to the rows of x, a few rows at a time,
/// so that body() reads these from L1.
template <class Body>
void over_summed_rows(Stream& stream, const Tensor& x, const ResidualSum& sum, const Body& body) {
  constexpr std::int64_t kFew = 4096;  // elements
  const std::int64_t width = x.size(-1), few = std::max<std::int64_t>(1, kFew / width);
  parallel_rows(stream.threads(), x.row_count(), width, [&](Range all) {
    if (!sum.exists()) return body(all);
    for (std::int64_t row = all.begin; row < all.end; row += few) {
      const Range rows{row, std::min(all.end, row + few)};
      residual_forward_rows(x, sum, rows);
      body(rows);
    }
  });
}

/// Returns a work area as elements of type T, or null if it is absent.
template <class T>
T* work_as(const Tensor& work) {
  return static_cast<T*>(work.raw());
}

/// What a step of an update rule multiplies by.
using RuleFactors = std::variant<AdamWFactors, SgdFactors, DescentFactors>;
/// The counts of a StepReport.
struct UpdateCounts {
  std::int64_t nonzero = 0, lost = 0, lost_copies = 0;
};

}  // namespace mtl::cpu
