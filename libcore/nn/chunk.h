// A model chunk: a range of consecutive layers. A pipeline stage holds one or more chunks. The model's first chunk also
// includes the embedding, and the last chunk includes the final norm and the output layer. A model that is not split is
// a single chunk.
//
// A chunk is a list of units, which run in order. A unit is a plain struct with these functions:
//   forward   y = f(x); keeps in its cache and in the slot what backward needs
//   backward  computes dx, the gradient of x, from dy, the gradient of y
//   params    visits its parameters
// An embedding has no dx. A head has losses in place of y, and backward computes them, too; it has no dy. The caller
// allocates y. If a unit's cache is not needed, all memory that the unit itself allocates can then be released.
//
// The chunk's loops do the work common to all units. Each unit runs while the chunk leases its parameter values and, in
// backward, its gradients. Offloaded layers' activations are copied to the host and back (nn/activation_offload.h).
// Recomputed layers run forward again before backward. Dropout draws the same numbers in both forward passes, so
// recomputation affects only memory and time. Backward releases activations unit by unit. Except in the first unit, dx
// overwrites x.
//
// Hidden states are (n, C), where n is the number of rows in a micro-batch that this rank holds outside the
// tensor-parallel region. They form the residual stream and have its dtype. Within a unit, tensors have the dtype of
// the unit's weights.
#pragma once

#include <array>
#include <optional>
#include <variant>
#include <vector>

#include "nn/block.h"
#include "nn/embedding_layer.h"
#include "nn/head.h"
#include "nn/model_build.h"
#include "nn/rotary.h"

namespace mtl {

/// The layers of a chunk.
struct ChunkRange {
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;
  bool has_embedding = true;
  bool has_head = true;  // the final norm and the output layer, plus a tied embedding unless has_embedding
};

class Chunk {
 public:
  using Unit = std::variant<EmbeddingLayer, Block, Head>;
  /// A unit's cache for backward, and its queue of weight gradients that are not computed yet.
  struct UnitSlot {
    std::variant<EmbeddingLayer::Cache, Block::Cache, Head::Cache> cache;
    WeightGradQueue weight_grads;
    Tensor input = {};         // x; in backward, its gradient overwrites it
    std::size_t slot_end = 0;  // in a span's last unit: bytes of the slot in use after the span
  };
  struct Cache {
    std::vector<UnitSlot> units;
    Tensor rotary;  // Batch::rotary, for backward
  };

  /// Throws Error(usage) if the chunk has too few layers for `build.offloaded_layers`; kResidentLayers always stay on
  /// the device.
  Chunk(const ModelBuild& build, ChunkRange range);
  void params(const ParamVisitor& visit);
  const ChunkRange& range() const { return range_; }
  /// Returns how many layers keep their activations on the host until backward. If this is not 0, training needs
  /// Ctx::offload.
  int offloaded_layers() const { return static_cast<int>(offloaded_); }
  /// Returns an empty cache for one micro-batch. In decoding, attention continues from the keys and values in `past`,
  /// which has one KvCache per layer.
  Cache make_cache(const std::vector<KvCache>& past = {}) const;
  /// Returns the shape (n, C) of the hidden states for a micro-batch of which this rank holds `tokens` tokens.
  Shape hidden_shape(const ProcessGroups& groups, std::int64_t tokens) const;
  DType hidden_dtype() const { return residual_; }
  /// Allocates hidden states in the slot.
  Tensor make_hidden(Ctx& ctx, const Batch& batch) const;

  /// Forward for training. `input` is the previous chunk's output and must not change until backward; the first chunk
  /// ignores it. Returns the next chunk's input; the last chunk returns no tensor.
  Tensor forward(Ctx& ctx, Tensor input, const Batch& batch, Cache& cache) const;
  /// Writes each parameter's gradient, or adds to it (Param::take_grad()). `dout` is the gradient that the next chunk's
  /// backward() returned, or, for the last chunk, memory of the same size. Returns the gradient with respect to the
  /// input, in the memory of `dout`; the first chunk returns no tensor. Overwrites the hidden states. The last chunk
  /// writes the losses (B, T) for all tokens. With ctx.defers_weights, linear layers' weight gradients are computed
  /// later, by weights().
  Tensor backward(Ctx& ctx, Tensor dout, Tensor losses, const Batch& batch, Cache& cache) const;
  /// Computes the weight gradients that backward() deferred, in the same order.
  void weights(Ctx& ctx, Cache& cache) const;
  /// Forward for evaluation. Keeps nothing for backward, and overwrites `input`. Returns the same tensor as forward().
  /// The last chunk writes the losses (B, T).
  Tensor evaluate(Ctx& ctx, Tensor input, Tensor losses, const Batch& batch, Cache& cache) const;

  /// The chunk must be the entire model. Depending on the shape of `out`, writes the logits (B T, V) for all positions,
  /// or the logits (B, V) for each sequence's last position.
  void logits(Ctx& ctx, Tensor out, const Batch& batch, Cache& cache) const;

 private:
  using Leases = std::array<Lease, 2>;
  Leases lease(const Ctx& ctx, Role role, std::size_t unit, std::optional<std::size_t> next) const;
  bool shares_table() const;
  Batch with_angles(Ctx& ctx, Batch batch, Cache& cache) const;
  /// Returns a unit's index in the entire model, as in ParamSpec::unit.
  int number_of(std::size_t unit) const {
    return static_cast<int>(range_.first_layer) + (range_.has_embedding ? 0 : 1) + static_cast<int>(unit);
  }
  /// Units [begin, end): a single unit, or layers to recompute together.
  struct Span {
    std::size_t begin, end;
    bool is_recomputed = false;
    int offloaded = -1;  // the layer's index p in ActivationOffload, or -1

    std::size_t last() const { return end - 1; }
  };
  Tensor run_units(Ctx& ctx, Tensor x, Tensor result, const Batch& batch, Cache& cache, Span span,
                   std::size_t run_end) const;
  void backward_unit(Ctx& ctx, Tensor dout, Tensor losses, const Batch& batch, Cache& cache, std::size_t unit,
                     std::optional<std::size_t> next) const;
  void end_gradients(const Ctx& ctx, std::size_t unit) const;
  /// Starts a unit's profile range.
  ProfileRange profiled(const Ctx& ctx, std::size_t unit) const;

  ChunkRange range_;
  std::int64_t hidden_;
  std::int64_t offloaded_ = 0;
  DType residual_;
  TpRegion region_;
  RotaryFrequencies frequencies_{};           // of rotary positions; without them, no pairs
  std::optional<GptConfig> changing_rotary_;  // to compute frequencies that depend on the length of the sequence
  std::vector<Unit> units_;
  std::vector<Span> spans_;  // in order, covering all units
};

}  // namespace mtl
