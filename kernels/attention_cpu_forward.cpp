// One group's attention forward: online softmax over key blocks with a running maximum and sum per row (Milakov,
// Gimelshein 2018), so that we never store a full row of scores.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention_cpu.h"
#include "kernels/attention_cpu_work.h"

#define MTL_SIMD_FILE "kernels/attention_cpu_forward.cpp"
#include "kernels/simd.h"

#include "kernels/attention_cpu_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Turns scores (columns) into exp(scores - maximum). Updates the running maximum and sum, and rescales the output row.
HWY_INLINE void softmax_row(float* scores, std::int64_t columns, float& row_max, float& row_sum, float* out,
                            std::int64_t padded) {
  VecF32 maxima = set(row_max);
  for (std::int64_t c = 0; c < columns; c += kLanes) maxima = hn::Max(maxima, hn::LoadU(F32(), scores + c));
  float maximum = hn::GetLane(hn::MaxOfLanes(F32(), maxima));
  if (maximum == -std::numeric_limits<float>::infinity()) {  // all keys so far are masked
    std::fill_n(scores, columns, 0.0f);
    return;
  }
  VecF32 shift = set(maximum), total = set(0);
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    VecF32 p = exp(hn::Sub(hn::LoadU(F32(), scores + c), shift));
    total = hn::Add(total, p);
    hn::StoreU(p, F32(), scores + c);
  }
  // online softmax: l' = exp(m - m') l + rowsum(P), out' = exp(m - m') out
  float factor = std::exp(row_max - maximum);
  row_sum = row_sum * factor + hn::GetLane(hn::SumOfLanes(F32(), total));
  row_max = maximum;
  if (factor == 1.0f) return;
  for (std::int64_t c = 0; c < padded; c += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(F32(), out + c), set(factor)), F32(), out + c);
  }
}

inline void softmax_block(const AttentionGroup& group, const ForwardWork& work, std::int64_t head, const Block& block) {
  std::int64_t padded = round_to_panel(group.dim);
  const BlockBytes bytes(group, block, work.bytes);
  if (group.dropout.active) draw_block(group, head, block, bytes);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const Columns columns = visible_panels(group, block, block.row + i / kRows * kRows);
    float* scores = work.scores + i * kScoreStride;
    mask_row(group, block, block.row + i, columns, scores);
    softmax_row(scores + columns.begin, columns.end - columns.begin, work.row_max[i], work.row_sum[i],
                work.out + i * padded, padded);
    if (!group.dropout.active) continue;
    for (std::int64_t c = columns.begin; c < columns.end; c += kLanes) {
      VecF32 factor = dropout_factor(bytes.at(i, c), group.dropout);
      hn::StoreU(hn::Mul(hn::LoadU(F32(), scores + c), factor), F32(), scores + c);
    }
  }
}

template <class T>
HWY_INLINE void write_rows(const AttentionForward& call, const ForwardWork& work, std::int64_t head,
                           const Block& block) {
  const AttentionGroup& group = call.group;
  std::int64_t padded = round_to_panel(group.dim);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const float factor = work.row_sum[i] == 0 ? 0 : 1.0f / work.row_sum[i];  // it may see none of the keys
    copy_scaled(work.out + i * padded, group.dim, factor, call.out.row<T>(block.row + i) + head * group.dim);
    if (call.logsumexp == nullptr) continue;
    call.logsumexp[head * group.queries + block.row + i] = work.row_max[i] + std::log(work.row_sum[i]);
  }
}

void attention_forward_group(const AttentionForward& call, float* area) {
  with_float(call.group.dtype, [&]<class T>(T) HWY_ATTR {
    const AttentionGroup& group = call.group;
    const ForwardWork work{WorkArea(area), group.keys, group.dim};
    std::int64_t padded = round_to_panel(group.dim);
    std::int64_t all_keys = round_up(group.keys, kKeyAlign);
    pack_transposed<T>(group.k, group.keys, group.dim, all_keys, work.k_columns);
    pack_rows<T>(group.v, group.keys, group.dim, work.v_rows);
    for (std::int64_t head = 0; head < group.heads; ++head) {
      for (std::int64_t row = 0, rows = 0; row < group.queries; row += rows) {
        rows = block_rows(group, row);
        copy_block(group.q.row<T>(row) + head * group.dim, group.q.stride, rows, group.dim, group.scale, padded,
                   work.q);
        std::fill_n(work.out, kQueryBlock * padded, 0.0f);
        std::fill_n(work.row_max, kQueryBlock, -std::numeric_limits<float>::infinity());
        std::fill_n(work.row_sum, kQueryBlock, 0.0f);
        Block block{.row = row, .rows = rows, .key = 0, .key_end = 0};
        const std::int64_t last_key = group.last_key(row + rows - 1);
        for (block.key = first_key_of(group, row, rows); block.key <= last_key; block.key += kKeyBlock) {
          block.key_end = std::min(block.key + kKeyBlock, all_keys);
          multiply_scores(work.q, padded, work.k_columns, group, block, work.scores);
          softmax_block(group, work, head, block);
          multiply_rows(work.scores, work.v_rows, padded, group, block, work.out);
        }
        write_rows<T>(call, work, head, block);
      }
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {

void forward_group(const AttentionForward& call, float* work) { MTL_DISPATCH(attention_forward_group)(call, work); }
}  // namespace mtl::cpu
#endif
