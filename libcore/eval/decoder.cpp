#include "eval/decoder.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/memory_limits.h"

namespace mtl {

namespace {

// Maximum number of prompt tokens per pass, so that memory does not depend on the prompt length.
constexpr std::int64_t kPiece = 128;

/// The shape of one layer's keys, and of its values: (B, T, groups, 1, D).
Shape cache_shape(const Model& model, std::int64_t sequences, std::int64_t positions) {
  const GptConfig& config = model.config();
  return {sequences, positions, config.num_query_groups, 1, config.head_dim};
}

/// A pass over `count` new positions in each sequence of a cache.
Workspace::Pass pass(const Model& model, Shape cache_shape, std::int64_t count) {
  return [&model, cache_shape, count](Ctx& ctx, const Chunk& chunk) {
    const std::int64_t rows = cache_shape[0];
    Tensor cache(nullptr, model.precision().compute, cache_shape);
    const KvCache layer{.keys = cache, .values = cache, .lengths = Tensor(nullptr, DType::i32, {rows})};
    std::vector<KvCache> caches(model.config().num_layers, layer);
    Batch batch;
    batch.tokens = batch.positions = Tensor(nullptr, DType::i32, {rows, count});
    Chunk::Cache past = chunk.make_cache(caches);
    chunk.logits(ctx, Tensor(nullptr, DType::f32, {rows, model.vocab()}), batch, past);
  };
}

/// The passes that a decoder makes: a step for all sequences, one token of one sequence, a piece of a prompt.
std::vector<Workspace::Pass> passes(const Model& model, std::int64_t sequences, std::int64_t positions) {
  Shape all = cache_shape(model, sequences, positions), one = cache_shape(model, 1, positions);
  return {pass(model, all, 1), pass(model, one, 1), pass(model, one, std::min(kPiece, positions))};
}

std::size_t cache_bytes_for(const Model& model, std::int64_t sequences, std::int64_t positions) {
  const Tensor keys(nullptr, model.precision().compute, cache_shape(model, sequences, positions));
  return 2 * model.config().num_layers * keys.bytes();
}

/// Returns `sequences`, for which there must be memory.
std::int64_t fitting_sequences(const Model& model, std::int64_t sequences, std::int64_t positions) {
  if (model.device() == Device::cpu)
    require_memory(
        cache_bytes_for(model, sequences, positions) + Workspace::bytes_for(model, passes(model, sequences, positions)),
        cat("a batch of ", count_of(sequences, "sequence"), " of up to ", count_of(positions, "token")),
        "use a smaller --batch-size or --max-new-tokens, or provide more memory");
  return sequences;
}

}  // namespace

Decoder::Decoder(Model& model, std::int64_t sequences, std::int64_t positions)
    : model_(model),
      sequences_(fitting_sequences(model, sequences, positions)),
      capacity_(positions),
      cache_memory_(model.device(), cache_bytes_for(model, sequences, positions)),
      small_memory_(model.device(),
                    sizeof(float) * (sequences * (1 + model.vocab()) + 2 * std::max(sequences, kPiece))),
      workspace_(model, passes(model, sequences, positions)) {
  require(positions >= 1 && positions <= model.positions(), "a decoder of ", positions,
          " positions, but the model has ", model.positions());
  const auto tensors_in = [](const Buffer& memory) {  // one after the other
    return [&memory, offset = std::size_t{0}](DType dtype, const Shape& shape) mutable {
      const Tensor out = memory.tensor(dtype, shape, offset);
      offset += out.bytes();
      return out;
    };
  };
  auto small = tensors_in(small_memory_), cache = tensors_in(cache_memory_);
  logits_ = small(DType::f32, {sequences, model.vocab()});
  lengths_ = small(DType::i32, {sequences});
  tokens_ = small(DType::i32, {std::max(sequences, kPiece)});
  positions_ = small(DType::i32, {std::max(sequences, kPiece)});
  on_host_.emplace(*this);
  const DType dtype = model.precision().compute;
  const Shape shape = cache_shape(model, sequences, positions);
  std::vector<KvCache> layers;
  for (std::int64_t layer = 0; layer < model.config().num_layers;
       ++layer)  // keys, then values: braces evaluate in order
    layers.push_back({.keys = cache(dtype, shape), .values = cache(dtype, shape), .lengths = lengths_});
  all_ = model.chunk().make_cache(layers);
  for (std::int64_t b = 0; b < sequences; ++b) {
    std::vector<KvCache> slices;
    for (const KvCache& layer : layers)
      slices.push_back(
          {.keys = layer.keys.rows(b, 1), .values = layer.values.rows(b, 1), .lengths = layer.lengths.rows(b, 1)});
    each_.push_back(model.chunk().make_cache(slices));
  }
}

/// Runs `count` new tokens in each of `rows` sequences. on_host_ holds their ids and positions. Writes logits from row
/// `first` on. `length` is the number of tokens that the sequence will have after its last piece; only models whose
/// rotary frequencies depend on it read it, and these run their sequences one by one.
void Decoder::run(std::int64_t first, std::int64_t rows, std::int64_t count, std::int64_t length, Chunk::Cache& past) {
  Batch batch;
  batch.tokens = tokens_.flat(0, rows * count).view({rows, count});
  batch.positions = positions_.flat(0, rows * count).view({rows, count});
  batch.decoded = length;
  Ctx ctx = workspace_.context();
  for (const HostView* view : {&on_host_->lengths, &on_host_->tokens, &on_host_->positions}) view->send();
  model_.chunk().logits(ctx, logits_.rows(first, rows), batch, past);
}

std::span<const float> Decoder::host_logits(std::int64_t rows) {
  on_host_->logits.receive();
  return std::span(on_host_->logits.tensor().data<float>(), rows * model_.vocab());
}

std::span<const float> Decoder::append(std::int64_t sequence, std::span<const std::int32_t> ids) {
  require(!ids.empty(), "Decoder::append: no ids");
  std::int32_t& length = lengths()[sequence];
  require(length + std::ssize(ids) <= capacity_, "Decoder::append: ", ids.size(), " ids after ", length,
          " tokens, but a sequence has ", capacity_, " positions");
  const std::int64_t total = length + std::ssize(ids);
  while (!ids.empty()) {
    auto piece = ids.first(std::min<std::size_t>(ids.size(), kPiece));
    std::copy(piece.begin(), piece.end(), on_host_->tokens.tensor().data<std::int32_t>());
    auto count = static_cast<std::int32_t>(piece.size());
    for (std::int32_t i = 0; i < count; ++i) on_host_->positions.tensor().data<std::int32_t>()[i] = length + i;
    run(0, 1, count, total, each_[sequence]);
    length += count;
    ids = ids.subspan(piece.size());
  }
  return host_logits(1);
}

std::span<const float> Decoder::step(std::span<const std::int32_t> ids) {
  require(std::ssize(ids) == sequences_, "a step of ", ids.size(), " ids for ", sequences_, " sequences");
  for (std::size_t b = 0; b < ids.size(); ++b)
    require(ids[b] < 0 || lengths()[b] < capacity_, "Decoder::step: sequence ", b, " already has ", capacity_,
            " tokens");
  const bool apart = model_.config().depends_on_length();  // sequences have different frequencies
  for (std::size_t b = 0; b < ids.size(); ++b) {
    if (ids[b] < 0) lengths()[b] = 0;
    const std::size_t row = apart ? 0 : b;
    on_host_->tokens.tensor().data<std::int32_t>()[row] = std::max(ids[b], 0);
    on_host_->positions.tensor().data<std::int32_t>()[row] = lengths()[b];
    if (apart && ids[b] >= 0) run(static_cast<std::int64_t>(b), 1, 1, lengths()[b] + 1, each_[b]);
  }
  if (!apart) run(0, sequences_, 1, 1, all_);
  for (std::size_t b = 0; b < ids.size(); ++b) lengths()[b] += ids[b] < 0 ? 0 : 1;
  return host_logits(sequences_);
}

}  // namespace mtl
