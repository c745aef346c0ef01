// Continues prompts, several at a time.
//
// If a model has P positions, longer prompts are cut to the last P tokens. A sequence that has filled all positions
// continues from its last P / 2 tokens (at least 1), at positions 0, 1, ... A sequence's random numbers depend on the
// seed, the sequence number and the index of the new token. They do not depend on the batch or on the thread count.
// (The last bits of logits may depend on both, like all GEMM results.)
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "eval/decoder.h"
#include "eval/sampling.h"

namespace mtl {

struct GenerationOptions {
  std::int64_t max_new_tokens = 128;
  bool greedy = false;  // choose the most likely token instead of a random one
  SamplingOptions sampling;
  std::uint32_t seed = 1234;
  std::vector<std::int32_t> stops;  // a continuation ends after the first of these ids
};

/// A prompt: at least one id. All ids must be in the vocabulary.
struct Request {
  std::vector<std::int32_t> prompt;
  std::uint64_t number = 0;  // selects the random numbers
};

struct Completion {
  std::vector<std::int32_t> ids;  // new tokens, including a stop id
  std::vector<double> logprobs;   // for each new token, with temperature 1 and without filters
  bool stopped = false;           // ended by a stop id, not by its length
  std::int64_t slides = 0;        // how often the sequence was cut because all positions were full
};

class Generator {
 public:
  /// Runs up to `batch` requests at a time. The cache has room for `longest_prompt` tokens plus max_new_tokens tokens,
  /// but at most for the model's positions. Prompts must not be longer than `longest_prompt`.
  Generator(Model& model, const GenerationOptions& options, std::int64_t batch, std::int64_t longest_prompt);
  std::size_t cache_bytes() const { return decoder_.cache_bytes(); }
  /// Called with a request's index and the next id, as soon as the id is chosen.
  using OnToken = std::function<void(std::size_t, std::int32_t)>;
  /// Returns the completions for at most `batch` requests, in request order. Throws Error(bad_data) if a logit is NaN
  /// or +infinity, or if all are -infinity.
  std::vector<Completion> run(std::span<const Request> requests, const OnToken& on_token = {});

 private:
  struct Sequence;
  void choose(Sequence& sequence, std::span<const float> logits);
  bool step(std::vector<Sequence>& sequences);

  Model& model_;
  GenerationOptions options_;
  Decoder decoder_;
  Candidates candidates_;
  std::vector<std::int32_t> step_ids_;
};

}  // namespace mtl
