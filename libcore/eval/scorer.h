// Scores a model's prediction of a stream of tokens.
//
// Cuts the stream into windows of S + 1 tokens that overlap by one; the last may be shorter. Every token but the
// stream's first is predicted exactly once, from at most S tokens before it. Losses are fp32; their sum is fp64, in
// stream order, however the stream is divided into push() calls.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "device/copy.h"
#include "engine/pipeline.h"
#include "eval/model.h"

namespace mtl {

struct Score {
  double loss_sum = 0;      // nats
  std::int64_t tokens = 0;  // predicted
  std::int64_t windows = 0;

  /// Both need tokens > 0.
  double loss() const { return loss_sum / double(tokens); }
  double perplexity() const { return std::exp(loss()); }
};

class Scorer {
 public:
  /// Computes up to `batch` windows at a time, each with `seq_length` (1 to the model's positions) predictions.
  Scorer(Model& model, std::int64_t batch, std::int64_t seq_length);

  /// Takes the next tokens of the stream, any number. Throws Error(bad_data) for an id outside the model's vocabulary.
  /// This and finish() throw Error(bad_data) when a loss is not finite.
  void push(std::span<const std::int32_t> ids);
  /// Scores the remaining tokens. Do not push() afterwards.
  void finish();
  /// The sum over all windows scored so far.
  const Score& score() const { return score_; }
  std::int64_t pushed() const { return pushed_; }

  /// Losses (rows, length), row-major, of the windows that begin at ids[0], ids[length], ...; takes rows * length + 1
  /// ids. rows * length must not exceed batch * seq_length. Valid until the next call.
  std::span<const float> losses(std::span<const std::int32_t> ids, std::int64_t rows, std::int64_t length);

 private:
  void score_windows(std::int64_t rows, std::int64_t length);

  Model& model_;
  std::int64_t batch_, seq_length_;
  BatchBuffers buffers_;
  HostView tokens_, positions_, labels_, losses_;  // of buffers_
  Workspace workspace_;
  Chunk::Cache cache_;
  std::vector<std::int32_t> waiting_;  // from begin_ on, tokens to score; the first of these is only context
  std::size_t begin_ = 0;
  std::int64_t pushed_ = 0;
  Score score_;
};

}  // namespace mtl
