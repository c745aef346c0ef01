// The canonical form of a model, which every file format is converted to and from: names, unsharded shapes,
// configuration.
//
// V vocabulary (unpadded), P positions, C hidden, F feed-forward, H heads, G query groups, R = H / G, D head_dim:
//   embedding.tokens.weight (V, C)   embedding.positions.weight (P, C)   final_norm.{weight,bias} (C)
//   layers.N.norm1.{weight,bias} (C)                   layers.N.norm2.{weight,bias} (C)
//   layers.N.attention.qkv.weight (G, R + 2, D, C)     .bias (G, R + 2, D)    per group: R queries, the key, the value
//   layers.N.attention.out.weight (C, H D)             .bias (C)
//   layers.N.mlp.up.weight (F, C)    .bias (F)         layers.N.mlp.down.weight (C, F)    .bias (C)
// The output layer shares embedding.tokens.weight. Architectures other than GPT-2, by GptConfig:
//   RMSNorm and linears without bias lack .bias; rotary positions have no embedding.positions.weight
//   gated MLP: layers.N.mlp.up.weight (2, F, C) .bias (2, F), the gate before the up projection
//   norms of queries and keys: layers.N.attention.{q_norm,k_norm}.weight (D)
//   parallel residual: both norms, with the same input;  untied: output.weight (V, C)
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "nn/gpt_config.h"
#include "optim/update_rule.h"

namespace mtl {

/// The largest size that a file may state: the product of two fits in 63 bits.
inline constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;

struct CanonicalTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t numel() const;
};

/// Every parameter of the model, in the order in which a forward pass uses them.
std::vector<CanonicalTensor> canonical_tensors(const GptConfig& config);

/// The tensor kinds of a checkpoint, each with one tensor per parameter: "param", and all states of every update rule
/// for which `holds` is true of at least one state.
std::vector<std::string> tensor_kinds(const std::function<bool(const std::string& kind)>& holds);

/// Bytes of the tensors in a training run's checkpoint: the main weights, in dtype `weights`, and the update rule's
/// states.
std::int64_t checkpoint_bytes(const GptConfig& config, DType weights, const std::vector<StateSpec>& states);

/// The configuration as stored in a checkpoint's manifest.
Json config_to_json(const GptConfig& config);
/// Throws Error(bad_data) for the first key that is missing or has an unsupported value, else for all numbers out of
/// range.
GptConfig config_from_json(const Json& json);

}  // namespace mtl
