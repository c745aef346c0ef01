// Activation recomputation: selects the layers that recompute their activations for backward instead of keeping them
// (Chen et al. 2016; Korthikanti et al. 2022, section 5). The options are Megatron-LM's --recompute-granularity,
// --recompute-method and --recompute-num-layers.
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

/// Consecutive layers in a chunk. A recomputed group keeps only its first layer's input.
struct LayerGroup {
  std::int64_t first = 0, count = 1;
  bool is_recomputed = false;

  bool operator==(const LayerGroup&) const = default;
};

/// Divides a chunk with `layers` layers into groups, in order. Throws Error(failure) if num_layers < 1.
/// - `full` granularity with the `uniform` method: Groups have num_layers layers each, except that the last may have
///   fewer. All groups are recomputed.
/// - `full` granularity with the `block` method: Every group has one layer. The first num_layers groups are recomputed.
/// - Otherwise, every group has one layer, and none is recomputed.
std::vector<LayerGroup> recompute_groups(const Recompute& recompute, std::int64_t layers);

}  // namespace mtl
