// A run of consecutive layers: what a pipeline stage holds one or several of. The first chunk has the embedding, the
// last the final norm and the output layer; the only chunk of an unsplit model has everything.
//
// Hidden states are (n, C): the rows of a micro-batch that this rank holds outside the tensor-parallel region.
#pragma once

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
  bool last = true;   // holds the final norm and the output layer, with a copy of the table unless it is the first too
};

class Chunk {
 public:
  /// What forward leaves for backward, in the slot.
  struct Cache {
    std::vector<Block::Cache> blocks;
    NormLayer::Cache final_norm;
    Tensor dx;  // the last chunk's: the gradient that its backward starts from
  };

  Chunk(const GptConfig& config, const DropoutOptions& dropout, TpRegion around, ChunkRange range,
        std::int64_t padded_vocab_size);
  void params(const ParamVisitor& visit);
  const ChunkRange& range() const { return range_; }
  /// Memory, in the slot, for hidden states that come from another chunk.
  Tensor make_hidden(Ctx& ctx, const Batch& batch) const;

  /// Training. `input`, in the slot, comes from the chunk before; the first has none. Returns what the chunk after
  /// needs; the last returns nothing but writes losses (B, T) of every token, and takes the output layer's gradients.
  Tensor forward(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch, Cache& cache) const;
  /// Adds every parameter's gradient. `dout`, in the slot, comes from the chunk after (the last has none) and becomes
  /// the gradient of the input, which is returned; the first chunk returns nothing.
  Tensor backward(Ctx& ctx, Tensor dout, const Batch& batch, Cache& cache) const;
  /// Like forward, keeping nothing and without gradients.
  Tensor evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch) const;

  /// Of a chunk that is the whole model: logits (B T, V) of every position.
  void logits(Ctx& ctx, Tensor out, const Batch& batch) const;
  /// Likewise: logits (B, V) of the last of T new positions that follow what the caches (one a layer) hold.
  void logits_cached(Ctx& ctx, Tensor out, const Batch& batch, const std::vector<KvCache>& caches) const;

 private:
  Tensor hidden_without_cache(Ctx& ctx, Tensor input, const Batch& batch) const;

  ChunkRange range_;
  std::int64_t hidden_;
  TpRegion region_;
  ParamSpec table_copy_spec_;  // of a last chunk that is not the first
  EmbeddingLayer embedding_;
  std::vector<Block> blocks_;
  NormLayer final_norm_;
  LmHead head_;
};

}  // namespace mtl
