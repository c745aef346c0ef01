// Activation recomputation: which layers keep their activations for backward, and which recompute them (Chen et al.
// 2016; Korthikanti et al. 2022, section 5). The options are Megatron-LM's --recompute-granularity, --recompute-method
// and --recompute-num-layers.
#pragma once

#include <cstdint>
#include <vector>

namespace mtl {

struct Recompute {
  enum class Granularity { none, selective, full };
  enum class Method { uniform, block };

  Granularity granularity = Granularity::none;  // selective: recompute only attention; full: recompute entire layers
  Method method = Method::uniform;
  std::int64_t num_layers = 1;

  bool operator==(const Recompute&) const = default;
  bool recomputes_attention() const { return granularity == Granularity::selective; }
};

/// Consecutive layers in a chunk. If the group is recomputed, only its first layer's input is kept.
struct LayerGroup {
  std::int64_t first = 0, count = 1;
  bool is_recomputed = false;

  bool operator==(const LayerGroup&) const = default;
};

/// Divides a chunk with `layers` layers into groups, in order. Throws Error(failure) if num_layers < 1.
/// - With granularity `full` and method `uniform`, groups have num_layers layers (the last group may have fewer), and
///   all groups are recomputed.
/// - With granularity `full` and method `block`, every group has one layer, and the first num_layers groups are
///   recomputed.
/// - Otherwise, every group has one layer, and none is recomputed.
std::vector<LayerGroup> recompute_groups(const Recompute& recompute, std::int64_t layers);

}  // namespace mtl
