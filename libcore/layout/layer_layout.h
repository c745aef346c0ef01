// Reads and writes --pipeline-model-parallel-layout, Megatron-LM's text for layers that are distributed freely over the
// stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

/// Returns the number of layers of every place, by position (layout/place.h).
///
/// In the text, "|" separates places, "E" is the embedding, "t" a layer and "L" the output layer. "t*3" means "ttt",
/// and
/// "(tt|)*2" means "tt|tt|". Commas have no meaning. Example: "Et*3|(tttt|)*2ttL" has 3, 4, 4 and 2 layers. Throws
/// Error(usage), without the flag's name, if the text is not of this form, or if the embedding is not at the start or
/// the output layer not at the end.
std::vector<std::int64_t> parse_layer_layout(const std::string& text);
/// Returns a text for these numbers of layers, such as "Et*3|t*4|t*4|t*2L".
std::string layer_layout_text(const std::vector<std::int64_t>& counts);

}  // namespace mtl
