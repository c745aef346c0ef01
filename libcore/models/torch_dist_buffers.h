// The gradient buffers of a torch_dist checkpoint's ranks. The distributed optimizer's layouts dp_reshardable,
// fully_sharded_bucket_space and dp_zero_gather_scatter store the optimizer state by buffer (megatron_buffers.h), and
// nothing in the files says where a parameter is: that follows from the model, its arguments and the order of
// Megatron-LM's modules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/pickle.h"
#include "formats/stored_matrix.h"
#include "models/megatron_buffers.h"
#include "models/megatron_names.h"
#include "nn/gpt_config.h"

namespace mtl {

/// A parameter in a rank's buffer.
struct DistBufferParam {
  std::string name;  // canonical; "" for the last stage's copy of a tied token embedding
  MegatronBufferRange range;
  /// The rank's part of the parameter, as rectangles of the whole matrix (megatron-core's), in order.
  std::vector<Rectangle> parts;
  bool is_replica = false;  // another tensor parallel rank has the same elements
};

/// The buffer of a chunk of the model-parallel rank with number `group`: tensor parallel ranks of a stage are
/// consecutive.
struct DistBuffer {
  std::int64_t group = 0, chunk = 0;
  MegatronBuffer buffer;
  std::vector<DistBufferParam> params;
};

/// Returns the buffers of all model-parallel ranks, one for each chunk. `vocabulary_rows` includes padding. Throws
/// Error(bad_data) as megatron_stages() does.
std::vector<DistBuffer> torch_dist_buffers(const GptConfig& config, PickleValue args, std::int64_t vocabulary_rows);

/// Appends the pieces for elements [begin, end) of a rank's part of a parameter, which are dense in file tensor `file`,
/// starting at element `offset`.
void add_rank_range(const StoredMatrix& matrix, const std::vector<Rectangle>& parts, std::int64_t begin,
                    std::int64_t end, std::size_t file, std::int64_t offset, std::vector<TensorPiece>& pieces);

}  // namespace mtl
