// Which layers Megatron-LM's pipeline stages have, from the arguments of a run: equal or uneven stages, with one chunk
// or, interleaved, several.
//
//   virtual_pipeline_model_parallel_size                       chunks per stage
//   decoder_first_pipeline_num_layers, decoder_last_...        layers of the first and the last stage; the others share
//                                                              the rest equally
//   account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split
//                                                              count as a layer of the first and the last chunk
//
// Chunk c of stage s has the layers after those of stage s - 1, or, for s = 0, after those of chunk c - 1 of the last
// stage. These are the rules of get_num_layers_to_build in megatron/core/transformer/transformer_block.py.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/pickle.h"

namespace mtl {

struct MegatronLayers {
  std::int64_t first = 0, count = 0;
};

/// Returns the layers of every chunk of every stage: result[stage][chunk]. Throws Error(bad_data) if an argument has
/// the wrong type, if the arguments give another number of layers in total, or if they describe the stages by a layout
/// in text (pipeline_model_parallel_layout), which mtl does not read.
std::vector<std::vector<MegatronLayers>> megatron_stages(PickleValue args, std::int64_t num_layers);

}  // namespace mtl
