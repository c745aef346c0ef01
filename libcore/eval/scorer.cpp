#include "eval/scorer.h"

#include <algorithm>

#include "base/count_of.h"

namespace mtl {

namespace {

RunShape shape_of(std::int64_t batch, std::int64_t seq_length) {
  return {.micro_batch = batch, .seq_length = seq_length, .layout = {}};
}

std::vector<Workspace::Pass> passes(std::int64_t batch, std::int64_t seq_length) {
  return {[=](Ctx& ctx, const Chunk& chunk) {
    Batch views = meta_batch(shape_of(batch, seq_length));
    Chunk::Cache cache = chunk.make_cache();
    chunk.evaluate(ctx, {}, views.loss_weights, views, cache);
  }};
}

/// Returns the first rows * length elements of a (B, T) tensor as a (rows, length) tensor.
Tensor first(Tensor whole, std::int64_t rows, std::int64_t length) {
  return whole.flat(0, rows * length).view({rows, length});
}

}  // namespace

Scorer::Scorer(Model& model, std::int64_t batch, std::int64_t seq_length)
    : model_(model),
      batch_(batch),
      seq_length_(seq_length),
      buffers_(model.device(), shape_of(batch, seq_length)),
      tokens_(model.device(), buffers_.batch(0).tokens),
      positions_(model.device(), buffers_.batch(0).positions),
      labels_(model.device(), buffers_.batch(0).labels),
      losses_(model.device(), buffers_.losses(0)),
      workspace_(model, passes(batch, seq_length)),
      cache_(model.chunk().make_cache()) {
  require(seq_length >= 1 && seq_length <= model.positions(), "windows of ", seq_length, " tokens, but the model has ",
          model.positions(), " positions");
}

std::size_t Scorer::bytes_for(const Model& model, std::int64_t batch, std::int64_t seq_length) {
  return Workspace::bytes_for(model, passes(batch, seq_length));  // buffers_ is negligible
}

std::span<const float> Scorer::losses(std::span<const std::int32_t> ids, std::int64_t rows, std::int64_t length) {
  std::int64_t count = rows * length;
  require(std::ssize(ids) == count + 1, "losses: ", rows, " windows of ", length, " tokens from ", ids.size(), " ids");
  const Batch& whole = buffers_.batch(0);
  Batch batch;
  batch.tokens = first(whole.tokens, rows, length);
  batch.positions = first(whole.positions, rows, length);
  batch.labels = first(whole.labels, rows, length);
  std::copy_n(ids.data(), count, tokens_.tensor().data<std::int32_t>());
  std::copy_n(ids.data() + 1, count, labels_.tensor().data<std::int32_t>());
  for (std::int64_t i = 0; i < count; ++i)
    positions_.tensor().data<std::int32_t>()[i] = static_cast<std::int32_t>(i % length);
  for (const HostView* view : {&tokens_, &labels_, &positions_}) view->send();
  Tensor losses = first(buffers_.losses(0), rows, length);
  Ctx ctx = workspace_.context();
  model_.chunk().evaluate(ctx, {}, losses, batch, cache_);
  losses_.receive();
  return std::span(losses_.tensor().data<float>(), count);
}

void Scorer::score_windows(std::int64_t rows, std::int64_t length) {
  std::size_t count = rows * length;
  for (float loss : losses(std::span(waiting_).subspan(begin_, count + 1), rows, length))
    score_.loss_sum += double{loss};
  if (!std::isfinite(score_.loss_sum)) {
    fail(Exit::bad_data, "after ", count_of(score_.tokens, "scored token"), ": ", kNotFinite);
  }
  begin_ += count;
  score_.tokens += rows * length;
  score_.windows += rows;
}

void Scorer::push(std::span<const std::int32_t> ids) {
  model_.check_ids(ids, cat("the data, after ", count_of(pushed_, "token")));
  pushed_ += std::ssize(ids);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  waiting_.insert(waiting_.end(), ids.begin(), ids.end());
  std::size_t full = batch_ * seq_length_;
  while (waiting_.size() - begin_ > full) score_windows(batch_, seq_length_);
}

void Scorer::finish() {
  auto left = static_cast<std::int64_t>(waiting_.size() - begin_) - 1;  // the first token is not predicted
  if (left >= seq_length_) score_windows(left / seq_length_, seq_length_), left %= seq_length_;
  if (left > 0) score_windows(1, left);
}

}  // namespace mtl
