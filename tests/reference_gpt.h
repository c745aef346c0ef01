// A GPT in plain fp64: forward and backward for a complete model as written in the papers, with one loop per index. The
// tests of the real model compare with it. The .cpp file also shows all the mathematics in one place.
//
// Dimensions: B sequences of T tokens, N = B T rows, C hidden, H heads of D elements, G query groups, F feed-forward, V
// vocabulary. Attention is causal and limited to the document and to a sliding window. There is no dropout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/gpt_config.h"

namespace mtl::test {

using Array = std::vector<double>;
/// Tensors by canonical name, in the canonical layouts that models/canonical.h defines.
using Tensors = std::map<std::string, Array>;

struct ReferenceBatch {
  std::int64_t sequences = 0, length = 0;        // B, T
  std::vector<std::int64_t> tokens{}, labels{};  // (B, T)
  std::vector<std::int64_t> positions{};         // (B, T)
  std::vector<std::int64_t> document_start{};    // (B, T): the first position that each token attends to
  Array loss_weights{};                          // (B, T): the step's loss is the sum of weight * token loss
};

struct ReferenceStep {
  Array logits;   // (B, T, V)
  Array losses;   // (B, T): -log softmax(logits)[label]
  Tensors grads;  // d(sum of weight * loss) / d(weight), for every tensor
};

/// `weights` must contain every tensor in canonical_tensors(config).
ReferenceStep reference_step(const GptConfig& config, const Tensors& weights, const ReferenceBatch& batch);

}  // namespace mtl::test
