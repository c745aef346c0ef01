// How Megatron-LM and programs that descend from it store a canonical tensor, or a rank's part of one: as a matrix or a
// vector whose rows merge the axes of queries, keys and values, and of a gated MLP.
#pragma once

#include <optional>
#include <vector>

#include "formats/stored_matrix.h"
#include "models/canonical.h"

namespace mtl {

/// The order of the rows. The default is that of Megatron-LM's checkpoints since version 2.
struct MegatronRows {
  std::vector<int> qkv_axes = {0, 1, 2};  // of queries, keys and values (G, R + 2, D), slowest first
  bool has_heads_apart = false;           // [queries | keys | values]
  bool has_up_first = false;              // [up | gate] of a gated MLP
  std::optional<int> half = {};           // a gated MLP has two matrices, and this one is its gate (0) or up (1)
};

/// Returns the matrices, one below the other, as which a box of a canonical tensor is stored.
std::vector<StoredMatrix> megatron_matrices(const CanonicalTensor& canonical, const Slice& box,
                                            const MegatronRows& order);

}  // namespace mtl
