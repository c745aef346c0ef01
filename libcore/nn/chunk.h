// A run of consecutive layers: what a pipeline stage holds one or several of. The first chunk has the embedding, the
// last the final norm and the output layer; the only chunk of an unsplit model has everything.
#pragma once

#include <optional>
#include <vector>

#include "nn/block.h"
#include "nn/embedding_layer.h"
#include "nn/lm_head.h"

namespace mtl {

/// Which part of the model a chunk is.
struct ChunkRange {
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  bool first = true;  // holds the embedding
  bool last = true;   // holds the final norm and the output layer
};

class Chunk {
 public:
  /// What forward leaves for backward, in the slot.
  struct Cache {
    std::vector<Block::Cache> blocks;
    NormLayer::Cache final_norm;
    Tensor dx;  // (B, T, C) the gradient that backward starts from and turns into the input's
  };

  Chunk(const GptConfig& config, const DropoutOptions& dropout, ChunkRange range, std::int64_t padded_vocab_size);
  void params(const ParamVisitor& visit);

  /// Training, an unsplit model: losses (B, T) of every token; the output layer's gradients are already taken.
  void forward(Ctx& ctx, Tensor losses, const Batch& batch, Cache& cache) const;
  /// Adds every parameter's gradient.
  void backward(Ctx& ctx, const Batch& batch, Cache& cache) const;
  /// Losses (B, T) alone, keeping nothing.
  void evaluate(Ctx& ctx, Tensor losses, const Batch& batch) const;
  /// Logits (B T, V) of every position.
  void logits(Ctx& ctx, Tensor out, const Batch& batch) const;
  /// Logits (B, V) of the last of T new positions that follow what the caches (one a layer) hold.
  void logits_cached(Ctx& ctx, Tensor out, const Batch& batch, const std::vector<KvCache>& caches) const;

 private:
  Tensor hidden_without_cache(Ctx& ctx, const Batch& batch) const;

  ChunkRange range_;
  std::int64_t hidden_;
  EmbeddingLayer embedding_;
  std::vector<Block> blocks_;
  NormLayer final_norm_;
  LmHead head_;
};

}  // namespace mtl
