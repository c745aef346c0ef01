// Continues prompts, several at a time.
//
// If a model has P positions, longer prompts are cut to the last P tokens. A sequence that has filled all positions
// continues from its last P / 2 tokens (at least 1), at positions 0, 1, ... A sequence's random numbers depend on the
// seed, the sequence number and the index of the new token. They do not depend on the batch or on the thread count.
// (The last bits of logits may depend on both, like all GEMM results.)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "eval/decoder.h"
#include "eval/sampling.h"
#include "text/tokenizer.h"

namespace mtl {

struct GenerationOptions {
  std::int64_t max_new_tokens = 128;
  bool greedy = false;  // choose the most likely token instead of a random one
  SamplingOptions sampling;
  std::int64_t seed = 1234;         // below 2^32
  std::vector<std::int32_t> stops;  // a continuation ends after the first of these ids
};

/// Returns the ids that end a continuation, as in transformers: eos_token_id in generation_config.json; failing that,
/// the tokenizer's end-of-document token or, without a tokenizer (null), eos_token_id in config.json.
std::vector<std::int32_t> end_tokens(const Tokenizer* tokenizer, const ModelSource& source);

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
  Generator(Model& model, const GenerationOptions& options) : model_(model), options_(options) {}
  /// Returns the size of the cache in bytes. It has room for as many requests as the largest batch, each with the
  /// longest prompt and max_new_tokens tokens, but at most the model's positions.
  std::size_t cache_bytes() const { return decoder_ ? decoder_->cache_bytes() : 0; }
  /// Allocates the memory for a batch, which run() does otherwise. Throws what Decoder's constructor throws.
  void make_room(std::span<const Request> requests);
  /// Called with a request's index and the next id, as soon as the id is chosen.
  using OnToken = std::function<void(std::size_t, std::int32_t)>;
  /// Returns the completions for a batch of requests, in request order. Throws Error(bad_data) if a logit is NaN or
  /// +infinity, or if all are -infinity, and what make_room() throws.
  std::vector<Completion> run(std::span<const Request> requests, const OnToken& on_token = {});

 private:
  struct Sequence;
  void choose(Sequence& sequence, std::span<const float> logits);
  bool step(std::vector<Sequence>& sequences);

  Model& model_;
  GenerationOptions options_;
  std::optional<Decoder> decoder_;
  std::int64_t longest_prompt_ = 0;  // that the decoder has room for
  Candidates candidates_;
  std::vector<std::int32_t> step_ids_;
};

}  // namespace mtl
