// A pipeline rank's part of the model: a list of chunks. With an interleaved or V schedule, there are multiple chunks.
#pragma once

#include <compare>
#include <vector>

#include "engine/run_shape.h"
#include "nn/chunk.h"

namespace mtl {

struct Stage {
  std::vector<Chunk> chunks;
  Places places;  // of the pipeline
  int number = 0;

  Place place(int chunk) const { return {number, chunk}; }
  void params(const ParamVisitor& visit);
};

/// What a chunk's work and memory depend on besides what all chunks share. Chunks of equal kinds may be of different
/// layers.
struct ChunkKind {
  bool has_embedding, has_head;
  std::vector<std::int64_t> windows;  // by layer: GptConfig::window_of()
  auto operator<=>(const ChunkKind&) const = default;
};
/// Returns the kinds of a stage's chunks. Throws Error(usage) if the layers cannot be split over the stages.
std::vector<ChunkKind> stage_kind(const GptConfig& config, const Layout& layout);

/// Returns a rank's stage. Throws Error(usage) if the layers cannot be split over the stages.
Stage make_stage(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);

}  // namespace mtl
