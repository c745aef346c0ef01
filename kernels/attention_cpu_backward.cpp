// One group's attention backward (Dao et al. 2022, algorithm 4). Query blocks are processed in order, each with all key
// blocks it sees. P is recomputed from logsumexp. The group's dk and dv are summed in the work area in this order, and
// rounded to their dtype once.
#include <algorithm>

#include "kernels/attention_cpu.h"
#include "kernels/attention_cpu_work.h"

#define MTL_SIMD_FILE "kernels/attention_cpu_backward.cpp"
#include "kernels/simd.h"

#include "kernels/attention_cpu_simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// Turns scores into dropout(P), and dout v^T into dS = P * (dP - delta), dP = dropout'(dout v^T).
inline void backward_block(const AttentionBackward& call, const BackwardWork& work, std::int64_t head,
                           const Block& block) {
  const AttentionGroup& group = call.group;
  const BlockBytes bytes(group, block, work.bytes);
  if (group.dropout.active) draw_block(group, head, block, bytes);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    std::int64_t row = block.row + i;
    const Columns columns = visible_panels(group, block, block.row + i / kRows * kRows);
    float* p = work.probabilities + i * kScoreStride;
    float* ds = work.dscores + i * kScoreStride;
    mask_row(group, block, row, columns, p);
    mask_row(group, block, row, columns, ds, 0);
    VecF32 shift = set(call.logsumexp[head * group.queries + row]);
    VecF32 delta = set(work.delta[i]);
    for (float* out : {p, ds}) {  // multiply_transposed reads entire tiles of kRows keys
      std::fill(out + columns.begin / kRows * kRows, out + columns.begin, 0.0f);
      std::fill(out + columns.end, out + std::min(columns.end + kRows, kScoreStride), 0.0f);
    }
    for (std::int64_t c = columns.begin; c < columns.end; c += kLanes) {
      // softmax, recomputed: P = exp(S - logsumexp)
      VecF32 probability = exp(hn::Sub(hn::LoadU(F32(), p + c), shift)), dp = hn::LoadU(F32(), ds + c);
      VecF32 kept = probability;
      if (group.dropout.active) {
        VecF32 factor = dropout_factor(bytes.at(i, c), group.dropout);
        kept = hn::Mul(kept, factor);
        dp = hn::Mul(dp, factor);
      }
      hn::StoreU(kept, F32(), p + c);
      // softmax backward: dS = P * (dP - delta)
      hn::StoreU(hn::Mul(probability, hn::Sub(dp, delta)), F32(), ds + c);
    }
  }
}

/// out (keys, padded) += scores^T rows, for the block's keys that each row sees.
inline void multiply_transposed(const float* scores, const float* rows, std::int64_t padded,
                                const AttentionGroup& group, const Block& block, float* out) {
  const std::int64_t last_key = std::min(block.key_end - 1, group.last_key(block.row + block.rows - 1));
  for (std::int64_t key = block.key; key <= last_key; key += kRows) {
    std::int64_t first = 0, end = block.rows;  // earlier and later rows do not see these keys
    while (first < end && group.last_key(block.row + first) < key) ++first;
    while (end > first && group.window_key(block.row + end - 1) > key + kRows - 1) --end;
    if (end <= first) continue;
    for (std::int64_t column = 0; column < padded; column += kWidth) {
      multiply_tile<true, Store::add>(scores + first * kScoreStride + key - block.key, kScoreStride,
                                      rows + first * padded + column, padded, end - first, out + key * padded + column,
                                      padded);
    }
  }
}

template <class T>
HWY_INLINE void write_scaled(const float* src, std::int64_t padded, std::int64_t rows, std::int64_t columns,
                             float factor, T* out, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) copy_scaled(src + r * padded, columns, factor, out + r * stride);
}

template <class T>
HWY_INLINE void backward_rows(const AttentionBackward& call, const BackwardWork& work, std::int64_t head,
                              std::int64_t row) {
  const AttentionGroup& group = call.group;
  std::int64_t rows = block_rows(group, row), padded = round_to_panel(group.dim);
  const std::int64_t column = head * group.dim;
  copy_block(group.q.row<T>(row) + column, group.q.stride, rows, group.dim, group.scale, padded, work.q);
  copy_block(call.dout.row<T>(row) + column, call.dout.stride, rows, group.dim, 1.0f, padded, work.dout);
  for (std::int64_t i = 0; i < rows; ++i) {  // delta = rowsum(dout * out), which equals rowsum(P * dP)
    work.delta[i] = dot(work.dout + i * padded, call.out.row<T>(row + i) + column, group.dim);
  }
  std::fill_n(work.dq, kQueryBlock * padded, 0.0f);
  Block block{.row = row, .rows = rows, .key = 0, .key_end = 0};
  const std::int64_t last_key = group.last_key(row + rows - 1);
  for (block.key = first_key_of(group, row, rows); block.key <= last_key; block.key += kKeyBlock) {
    block.key_end = std::min(block.key + kKeyBlock, round_up(group.keys, kKeyAlign));
    multiply_scores(work.q, padded, work.k_columns, group, block, work.probabilities);
    multiply_scores(work.dout, padded, work.v_columns, group, block, work.dscores);
    backward_block(call, work, head, block);
    multiply_transposed(work.probabilities, work.dout, padded, group, block, work.dv);
    multiply_transposed(work.dscores, work.q, padded, group, block, work.dk);
    multiply_rows(work.dscores, work.k_rows, padded, group, block, work.dq);
  }
  write_scaled(work.dq, padded, rows, group.dim, group.scale, call.dq.row<T>(row) + column, call.dq.stride);
}

void attention_backward_group(const AttentionBackward& call, float* area) {
  with_float(call.group.dtype, [&]<class T>(T) HWY_ATTR {
    const AttentionGroup& group = call.group;
    const BackwardWork work{WorkArea(area), group.keys, group.dim};
    std::int64_t padded = round_to_panel(group.dim), all_keys = round_up(group.keys, kKeyAlign);
    pack_transposed<T>(group.k, group.keys, group.dim, all_keys, work.k_columns);
    pack_transposed<T>(group.v, group.keys, group.dim, all_keys, work.v_columns);
    pack_rows<T>(group.k, group.keys, group.dim, work.k_rows);
    std::fill_n(work.dk, all_keys * padded, 0.0f);
    std::fill_n(work.dv, all_keys * padded, 0.0f);
    for (std::int64_t head = 0; head < group.heads; ++head) {
      for (std::int64_t row = 0; row < group.queries; row += block_rows(group, row))
        backward_rows<T>(call, work, head, row);
    }
    write_scaled(work.dk, padded, group.keys, group.dim, 1.0f, call.dk.row<T>(0), call.dk.stride);
    write_scaled(work.dv, padded, group.keys, group.dim, 1.0f, call.dv.row<T>(0), call.dv.stride);
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {

void backward_group(const AttentionBackward& call, float* work) { MTL_DISPATCH(attention_backward_group)(call, work); }
}  // namespace mtl::cpu
#endif
