// A model chunk: consecutive layers. A pipeline stage holds one or several chunks. The first chunk has the embedding,
// the last the final norm and the output layer; a model that is not split is one chunk.
//
// A chunk is a list of units, computed one after another. A unit is a plain struct with
//   forward(ctx, x, y, batch, cache)     y = f(x); keeps in `cache` and in the slot what backward needs
//   backward(ctx, dx, ..., batch, cache) turns the gradient of y into the gradient of x, in place
//   params(visit)
// The caller allocates y, so that everything a unit allocates can be released when its cache is not needed. The chunk's
// loops do what all units have in common: each unit computes under leases of its parameters' values and, in backward,
// of their gradients; activations of offloaded layers go to the host and come back (nn/activation_offload.h);
// recomputed layers run forward again before their backward. Dropout draws the same numbers in both passes, so
// recomputation changes only memory and time. Backward releases activations unit by unit.
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

/// The layers of a chunk.
struct ChunkRange {
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  bool has_embedding = true;
  bool has_head = true;  // the final norm and the output layer, with a copy of a tied embedding unless has_embedding
};

class Chunk {
 public:
  using Unit = std::variant<EmbeddingLayer, Block, Head>;
  /// A unit's cache for backward, and its weight gradients that are not yet computed.
  struct UnitSlot {
    std::variant<EmbeddingLayer::Cache, Block::Cache, Head::Cache> cache;
    WeightGradQueue weight_grads;
    Tensor input = {};         // in the first unit of a recomputed span: the span's input
    std::size_t slot_end = 0;  // in the last unit of a span: bytes of the slot in use after the span
  };
  struct Cache {
    std::vector<UnitSlot> units;
    Tensor rotary;  // Batch::rotary, for backward
    Tensor dx;      // last chunk only: the gradient of the hidden states
  };

  Chunk(const GptConfig& config, const DropoutOptions& dropout, TpRegion tp_region, ChunkRange range,
        std::int64_t padded_vocab_size, const Recompute& recompute = {}, DType residual = DType::f32,
        std::int64_t offloaded_layers = 0);
  void params(const ParamVisitor& visit);
  const ChunkRange& range() const { return range_; }
  /// Returns how many layers keep activations on the host until backward; above 0, training needs Ctx::offload.
  int offloaded_layers() const { return static_cast<int>(offloaded_); }
  /// Returns an empty cache for one micro-batch.
  Cache make_cache() const;
  /// Returns a cache for decoding: attention continues from these keys and values, one KvCache per layer.
  Cache make_cache(const std::vector<KvCache>& past) const;
  /// Returns the shape (n, C) of a micro-batch's hidden states.
  Shape hidden_shape(const Ctx& ctx, const Batch& batch) const;
  DType hidden_dtype() const { return residual_; }
  /// Allocates hidden states in the slot.
  Tensor make_hidden(Ctx& ctx, const Batch& batch) const;

  /// Runs forward in training. `input` is the previous chunk's output and must not change until backward; the first
  /// chunk takes none. Returns the input of the next chunk; the last chunk returns no tensor.
  Tensor forward(Ctx& ctx, Tensor input, const Batch& batch, Cache& cache) const;
  /// Writes every parameter's gradient, or adds to it (Param::take_grad()). Overwrites `dout`, which the next chunk
  /// returned, with the gradient of the input and returns it; the first chunk returns no tensor. The last chunk takes
  /// no dout and writes the losses (B, T) of all tokens. With ctx.defers_weights, weights() computes the weight
  /// gradients of the linear layers.
  Tensor backward(Ctx& ctx, Tensor dout, Tensor losses, const Batch& batch, Cache& cache) const;
  /// Computes the weight gradients that backward deferred, in its order.
  void weights(Ctx& ctx, Cache& cache) const;
  /// Runs forward in evaluation: keeps no caches, and overwrites `input`. Returns what forward() returns. The last
  /// chunk writes the losses (B, T).
  Tensor evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch, Cache& cache) const;

  /// Only if the chunk is the whole model: writes logits (B T, V) of every position or (B, V) of the last position of
  /// each sequence, depending on the shape of `out`.
  void logits(Ctx& ctx, Tensor out, const Batch& batch, Cache& cache) const;

 private:
  using Leases = std::array<Lease, 2>;
  Leases lease(const Ctx& ctx, Role role, std::size_t unit) const;
  bool shares_table() const;
  Batch with_angles(Ctx& ctx, Batch batch, Cache& cache) const;
  /// Returns the number of a unit in the whole model: ParamSpec::unit.
  int number_of(std::size_t unit) const {
    return static_cast<int>(range_.first_layer) + (range_.has_embedding ? 0 : 1) + static_cast<int>(unit);
  }
  /// Units [begin, end): a single unit, or layers that are recomputed together.
  struct Span {
    std::size_t begin, end;
    bool is_recomputed = false;
    int offloaded = -1;  // the layer's number p in ActivationOffload, or -1

    std::size_t last() const { return end - 1; }
  };
  Tensor run_units(Ctx& ctx, Tensor x, Tensor result, const Batch& batch, Cache& cache, Span span) const;
  void backward_unit(Ctx& ctx, Tensor dx, Tensor losses, const Batch& batch, Cache& cache, std::size_t unit) const;
  void end_gradients(const Ctx& ctx, std::size_t unit) const;
  /// Opens the unit's range in a profile.
  ProfileRange profiled(const Ctx& ctx, std::size_t unit) const;

  ChunkRange range_;
  std::int64_t hidden_;
  std::int64_t offloaded_ = 0;
  DType residual_;
  TpRegion region_;
  RotaryFrequencies frequencies_;
  std::vector<Unit> units_;
  std::vector<Span> spans_;  // in order, covering all units
};

}  // namespace mtl
