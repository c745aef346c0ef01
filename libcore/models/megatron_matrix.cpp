#include "models/megatron_matrix.h"

namespace mtl {

std::vector<StoredMatrix> megatron_matrices(const CanonicalTensor& canonical, const Slice& box,
                                            const MegatronRows& order) {
  const bool is_matrix = canonical.is_matrix(), is_qkv = canonical.row_axes() == 3,
             is_gated = canonical.row_axes() == 2;
  const auto part = [&](int axis, std::int64_t first, std::int64_t count) {
    return merged_rows(narrow(box, axis, first, count), is_matrix);
  };
  if (is_qkv && order.has_heads_apart) {
    const std::int64_t queries = box.size[1] - 2;
    return {part(1, 0, queries), part(1, queries, 1), part(1, queries + 1, 1)};
  }
  if (is_gated && order.half) return {part(0, *order.half, 1)};
  if (is_gated && order.has_up_first) return {part(0, 1, 1), part(0, 0, 1)};
  return {merged_rows(box, is_matrix, is_qkv ? order.qkv_axes : std::vector<int>())};
}

}  // namespace mtl
