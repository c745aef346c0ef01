// A run of consecutive layers: what a pipeline stage holds one or several of. The first chunk has the embedding, the
// last the final norm and the output layer; the only chunk of an unsplit model has everything.
//
// A chunk is a list of units, which are computed one after another. A unit is a plain struct with
//   forward(ctx, x, y, batch, cache)     y = f(x); what backward needs stays in `cache` and in the slot
//   backward(ctx, dx, ..., batch, cache) the gradient of y becomes the gradient of x, in place
//   params(visit)
// The memory of y comes from outside, so that all that a unit allocates can be released when its cache is not wanted.
// What concerns every unit alike is written once, in the chunk's loops: each unit computes under leases of its
// parameters' values and, in backward, of their gradients; layers that are recomputed run forward again before their
// backward. Dropout draws the same numbers then, so nothing changes but memory and time. Backward releases the
// activations of each unit when it is done with it.
//
// Hidden states are (n, C): the rows of a micro-batch that this rank holds outside the tensor-parallel region. They are
// the residual stream and have its dtype; within a unit tensors have the dtype of its weights.
#pragma once

#include <array>
#include <variant>
#include <vector>

#include "layout/recompute.h"
#include "nn/block.h"
#include "nn/embedding_layer.h"
#include "nn/head.h"
#include "nn/rotary.h"

namespace mtl {

/// Which part of the model a chunk is.
struct ChunkRange {
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  bool first = true;  // holds the embedding
  bool last = true;   // holds the final norm and the output layer, with a copy of a tied table unless it is the first
};

class Chunk {
 public:
  using Unit = std::variant<EmbeddingLayer, Block, Head>;
  /// What a unit leaves for its backward, in the slot, and its weight gradients that are still to be computed.
  struct UnitSlot {
    std::variant<EmbeddingLayer::Cache, Block::Cache, Head::Cache> cache;
    WeightGradQueue weight_grads;
    Tensor input = {};         // of the first unit of a recomputed span
    std::size_t slot_end = 0;  // of the last unit of a span: how much of the slot was used behind it
  };
  struct Cache {
    std::vector<UnitSlot> units;
    Tensor rotary;  // Batch::rotary, for backward
    Tensor dx;      // of the last chunk: the gradient that goes through it
  };

  Chunk(const GptConfig& config, const DropoutOptions& dropout, TpRegion around, ChunkRange range,
        std::int64_t padded_vocab_size, const Recompute& recompute = {}, DType residual = DType::f32);
  void params(const ParamVisitor& visit);
  const ChunkRange& range() const { return range_; }
  /// For forward, backward and evaluate.
  Cache make_cache() const;
  /// Decoding: attention continues from these keys and values, one KvCache a layer.
  Cache make_cache(const std::vector<KvCache>& past) const;
  /// Hidden states of a micro-batch, (n, C); and memory for them in the slot.
  Shape hidden_shape(const Ctx& ctx, const Batch& batch) const;
  DType hidden_dtype() const { return residual_; }
  Tensor make_hidden(Ctx& ctx, const Batch& batch) const;

  /// Training. `input`, there until backward, comes from the chunk before; the first has none. Returns what the chunk
  /// after needs; the last returns nothing.
  Tensor forward(Ctx& ctx, Tensor input, const Batch& batch, Cache& cache) const;
  /// Adds every parameter's gradient. `dout` comes from the chunk after and becomes the gradient of the
  /// input, which is returned; the first chunk returns nothing. The last has no dout; it writes losses (B, T) of every
  /// token. With ctx.defers_weights the linears' weight gradients are left to weights().
  Tensor backward(Ctx& ctx, Tensor dout, Tensor losses, const Batch& batch, Cache& cache) const;
  /// Computes the weight gradients that backward left, in its order.
  void weights(Ctx& ctx, Cache& cache) const;
  /// Like forward, keeping nothing and without gradients: `input` is overwritten. The last chunk writes losses (B, T).
  Tensor evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch, Cache& cache) const;

  /// Of a chunk that is the whole model: logits (B T, V) of every position, or (B, V) of the last of each sequence, as
  /// `out` is shaped.
  void logits(Ctx& ctx, Tensor out, const Batch& batch, Cache& cache) const;

 private:
  using Leases = std::array<Lease, 2>;
  Leases lease(const Ctx& ctx, Role role, std::size_t unit) const;
  bool shares_table() const;
  Batch with_angles(Ctx& ctx, Batch batch, Cache& cache) const;
  /// The number of a unit in the whole model: ParamSpec::unit.
  int number_of(std::size_t unit) const {
    return static_cast<int>(range_.first_layer) + (range_.first ? 0 : 1) + static_cast<int>(unit);
  }
  /// Units [begin, end): one, or several layers that are recomputed together.
  struct Span {
    std::size_t begin, end;
    bool is_recomputed = false;

    std::size_t last() const { return end - 1; }
  };
  Tensor run_units(Ctx& ctx, Tensor x, Tensor result, const Batch& batch, Cache& cache, Span span) const;
  void backward_unit(Ctx& ctx, Tensor dx, Tensor losses, const Batch& batch, Cache& cache, std::size_t unit) const;
  void end_gradients(const Ctx& ctx, std::size_t unit) const;
  /// The unit's range in a profile.
  ProfileRange profiled(const Ctx& ctx, std::size_t unit) const;

  ChunkRange range_;
  std::int64_t hidden_;
  DType residual_;
  TpRegion region_;
  RotaryFrequencies frequencies_;
  std::vector<Unit> units_;
  std::vector<Span> spans_;  // in order, all units
};

}  // namespace mtl
