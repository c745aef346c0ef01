// Scores how well a model predicts a token stream.
//
// The stream is divided into windows of S + 1 tokens that overlap by one token; the last window may be shorter. Every
// token except the stream's first one is predicted exactly once, from at most S preceding tokens. Losses are fp32.
// Their sum is fp64 and is computed in stream order, no matter how the stream is divided into push() calls.
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
  /// Computes up to `batch` windows at a time. Each window has `seq_length` predictions, from 1 to the model's number
  /// of positions.
  Scorer(Model& model, std::int64_t batch, std::int64_t seq_length);
  /// Returns how much memory such a scorer needs, in bytes.
  static std::size_t bytes_for(const Model& model, std::int64_t batch, std::int64_t seq_length);

  /// Takes the stream's next tokens, any number of them. Throws Error(bad_data) for an id outside the model's
  /// vocabulary. push() and finish() also throw Error(bad_data) if a loss is not finite.
  void push(std::span<const std::int32_t> ids);
  /// Scores the remaining tokens. push() must not be called afterwards.
  void finish();
  /// Returns the sum over all windows scored so far.
  const Score& score() const { return score_; }
  std::int64_t pushed() const { return pushed_; }

  /// Returns the losses (rows, length), row-major, for the windows that start at ids[0], ids[length], ... `ids` must
  /// have rows * length + 1 elements. rows * length must not exceed batch * seq_length. The result is valid until the
  /// next call.
  std::span<const float> losses(std::span<const std::int32_t> ids, std::int64_t rows, std::int64_t length);

 private:
  void score_windows(std::int64_t rows, std::int64_t length);

  Model& model_;
  std::int64_t batch_, seq_length_;
  BatchBuffers buffers_;
  HostView tokens_, positions_, labels_, losses_;  // of buffers_
  Workspace workspace_;
  Chunk::Cache cache_;
  std::vector<std::int32_t> waiting_;  // tokens to score start at begin_; the first is only context
  std::size_t begin_ = 0;
  std::int64_t pushed_ = 0;
  Score score_;
};

}  // namespace mtl
