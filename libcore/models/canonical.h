// A model's canonical form: tensor names, unsharded shapes and the configuration. Every file format is converted to and
// from this form.
//
// Sizes: V vocabulary (unpadded), P positions, C hidden, F feed-forward, H heads, G query groups, R = H / G, D
// head_dim.
//   embedding.tokens.weight (V, C)   embedding.positions.weight (P, C)   final_norm.{weight,bias} (C)
//   layers.N.norm1.{weight,bias} (C)                   layers.N.norm2.{weight,bias} (C)
//   layers.N.attention.qkv.weight (G, R + 2, D, C)     .bias (G, R + 2, D)    per group: R queries, the key, the value
//   layers.N.attention.out.weight (C, H D)             .bias (C)
//   layers.N.mlp.up.weight (F, C)    .bias (F)         layers.N.mlp.down.weight (C, F)    .bias (C)
// These are GPT-2's tensors; the output layer shares embedding.tokens.weight. Other GptConfig settings change the list:
//   RMSNorm, or linears without a bias: no .bias
//   rotary positions: no embedding.positions.weight
//   gated MLP: layers.N.mlp.up.weight (2, F, C), .bias (2, F); the gate comes before the up projection
//   query and key norms: layers.N.attention.{q_norm,k_norm}.weight (D)
//   parallel residual: norm1 and norm2 exist and have the same input
//   untied output layer: output.weight (V, C)
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "nn/gpt_config.h"
#include "optim/update_rule.h"

namespace mtl {

/// The largest axis size that a file may state. The product of two such sizes fits in 63 bits.
inline constexpr std::int64_t kMaxDimension = std::int64_t{1} << 31;

struct CanonicalTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  /// True for the weights of linears and embeddings. Other programs store them as matrices whose columns are the last
  /// axis, or as its transpose, and every other tensor as a vector.
  bool is_matrix() const { return shape.size() > 1 && name.ends_with(".weight"); }
  /// Returns the number of axes that the rows of the matrix, or the vector, merge: 3 of queries, keys and values, 2 of
  /// a gated MLP's first linear.
  int row_axes() const { return static_cast<int>(shape.size()) - (is_matrix() ? 1 : 0); }
};

inline constexpr const char* kTokenEmbedding = "embedding.tokens.weight";
inline constexpr const char* kPositionEmbedding = "embedding.positions.weight";
inline constexpr const char* kOutputLayer = "output.weight";

/// True for the token embedding and the output layer, whose rows are the vocabulary: files may have padding rows.
inline bool is_vocabulary(std::string_view name) { return name == kTokenEmbedding || name == kOutputLayer; }

/// Returns all of the model's parameters, in the order in which a forward pass uses them.
std::vector<CanonicalTensor> canonical_tensors(const GptConfig& config);

/// Returns the tensor kinds of a checkpoint or of one of its parameters: "param", and all states of every update rule
/// for which `holds` returns true for at least one state.
std::vector<std::string> tensor_kinds(const std::function<bool(const std::string& kind)>& holds);
/// Returns the kinds that a checkpoint with tensors of `kinds` must contain for a parameter: "param", and if it has
/// states, those of a single rule of which `holds` is true for at least one, or else of the first rule in `kinds`.
std::vector<std::string> param_kinds(const std::vector<std::string>& kinds,
                                     const std::function<bool(const std::string& kind)>& holds);

/// Returns the total size, in bytes, of the tensors in a training checkpoint: the main weights and the update rules'
/// states, if there are rules.
std::int64_t checkpoint_bytes(const GptConfig& config, const Precision& precision, const RuleSet& rules);

/// Returns the configuration in the form that a checkpoint's manifest stores.
Json config_to_json(const GptConfig& config);
/// Parses a configuration written by config_to_json(). Throws Error(bad_data) at the first key that is missing or has
/// an unsupported value. If there is none, but some numbers are out of range, throws Error(bad_data) that lists them
/// all.
GptConfig config_from_json(const Json& json);

}  // namespace mtl
