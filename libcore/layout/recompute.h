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

  Granularity granularity = Granularity::none;  // selective: only attention; full: whole layers
  Method method = Method::uniform;
  std::int64_t num_layers = 1;

  bool operator==(const Recompute&) const = default;
  bool recomputes_attention() const { return granularity == Granularity::selective; }
};

/// Consecutive layers of a chunk. If they are recomputed, only the input of the first is kept.
struct LayerGroup {
  std::int64_t first = 0, count = 1;
  bool is_recomputed = false;

  bool operator==(const LayerGroup&) const = default;
};

/// Divides a chunk of `layers` layers, in order. Full and uniform: groups of num_layers, all recomputed; the last may
/// be smaller. Full and block: groups of one layer, of which the first num_layers are recomputed. Otherwise groups of
/// one layer, none recomputed. Throws Error(failure) if num_layers < 1.
std::vector<LayerGroup> recompute_groups(const Recompute& recompute, std::int64_t layers);

}  // namespace mtl
