// Activation recomputation: which layers keep their activations for backward, and which recompute them (Chen et al.
// 2016; Korthikanti et al. 2022, section 5). Megatron-LM's --recompute-granularity, --recompute-method and
// --recompute-num-layers.
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
  bool attention() const { return granularity == Granularity::selective; }
};

/// Consecutive layers of a chunk. If they are recomputed, only the input of the first is kept.
struct LayerGroup {
  std::int64_t first = 0, count = 1;
  bool is_recomputed = false;

  bool operator==(const LayerGroup&) const = default;
};

/// The layers of a chunk, in order. Uniform: all of them in groups of num_layers, the last one may be shorter. Block:
/// the first num_layers are recomputed one by one, the others keep their activations.
std::vector<LayerGroup> recompute_groups(const Recompute& recompute, std::int64_t layers);

}  // namespace mtl
