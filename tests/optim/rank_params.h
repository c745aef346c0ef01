// One rank's parameters of a tiny GPT, shared by the optimizer's tests.
#pragma once

#include <utility>
#include <vector>

#include "nn/chunk.h"
#include "optim/optimizer.h"
#include "tests/gpt_of_size.h"

namespace mtl::test {

inline GptConfig tiny_gpt(int layers = 2, bool bias = true) {
  return gpt_of_size({.vocab = 40, .layers = layers, .hidden = 16, .heads = 2, .positions = 8}, bias);
}

struct Grid {
  int tensor = 1, data = 1;
  int zero = 0;
};

inline Layout layout_of(const Grid& grid, int rank) {
  Layout layout;
  layout.grid = RankGrid({.tensor = grid.tensor, .data = grid.data});
  layout.rank = rank;
  layout.zero = grid.zero;
  return layout;
}

/// Storage in several buckets.
inline const ParamStorage kSmallBuckets{.bucket_elements = 600};

struct RankParams {
  Stream stream{Device::cpu};
  Chunk chunk;
  ParamMemory store;

  explicit RankParams(const Layout& layout, const GptConfig& config = tiny_gpt(),
                      const Precision& precision = kPrecisionFp32, const ParamStorage& storage = kSmallBuckets)
      : RankParams(layout, config, precision, single_rule<AdamW>(), storage) {
    store.initialize(7);
  }
  /// Parameters that are not initialized. They have no gradients without a rule.
  RankParams(const Layout& layout, const GptConfig& config, const Precision& precision, RuleSet rules,
             const ParamStorage& storage = kSmallBuckets)
      : chunk({.config = config, .padded_vocab = 48, .residual = precision.residual},
              {.first_layer = 0, .num_layers = config.num_layers}),
        store(
            Device::cpu, precision, std::move(rules), [&](const ParamVisitor& visit) { chunk.params(visit); }, layout,
            storage) {}
};

inline int unit_of(const ParamMemory& store, int param) { return store.specs()[static_cast<std::size_t>(param)].unit; }

}  // namespace mtl::test
