// Distributes layers over pipeline stages.
//
// A stage holds one chunk of consecutive layers or, with an interleaved schedule, multiple chunks (layout/place.h). We
// follow Megatron-LM's rules with one exception: with one chunk per stage, the number of layers need not be a multiple
// of the number of stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/layout.h"

namespace mtl {

/// Layers [first, first + count) in the model.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const LayerRange&) const = default;

  std::string text() const;  // "3" or "0-3"; there must be a layer
};

/// Returns the number of layers of every place, by position. Layout::split.layer_counts come first. Without them, if
/// the layers do not divide evenly, surplus layers are given to the second stage, the third stage and so on, one each.
/// The first stage gets none, because it has the embedding. The last of p stages, which has the output layer, gets one
/// only if there are p-1 surplus layers. Like Megatron-LM, allows the first and the last chunk to have no layers with
/// --account-for-*. Throws Error(usage) if the layers cannot be distributed. The message includes the flags and, where
/// other numbers of layers or stages would do, such numbers; no other --num-layers if `is_fixed`, as in a model that is
/// loaded.
std::vector<std::int64_t> layer_counts(const Layout& layout, std::int64_t num_layers, bool is_fixed = false);

/// Returns the layers in every chunk, indexed by [stage][chunk]. Together, the chunks cover every layer once. Throws as
/// layer_counts() does.
std::vector<std::vector<LayerRange>> split_layers(const Layout& layout, std::int64_t num_layers);

}  // namespace mtl
