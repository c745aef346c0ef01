// Continues prompts, several at a time.
//
// If a model has P positions, a prompt of more than P tokens is cut to its last P tokens. A sequence that has filled
// all positions continues from its last P / 2 tokens (at least 1), at positions 0, 1, ... The random numbers of a
// sequence depend on the seed, the number of the sequence and the index of the new token. They do not depend on the
// batch or on the number of threads. (The last bits of logits may depend on the batch and on the number of threads,
// like all results of matrix products.)
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
  bool greedy = false;  // choose the most likely token; otherwise draw a random token
  SamplingOptions sampling;
  std::uint32_t seed = 1234;
  std::vector<std::int32_t> stops;  // a continuation ends after the first of these ids
};

/// A prompt: at least one id, all in the vocabulary.
struct Request {
  std::vector<std::int32_t> prompt;
  std::uint64_t number = 0;  // selects the random numbers
};

struct Completion {
  std::vector<std::int32_t> ids;  // the new tokens, including a stop id
  std::vector<double> logprobs;   // of each new token, with temperature 1 and no filter
  bool stopped = false;           // ended by a stop id, not by the length
  std::int64_t slides = 0;        // times that the sequence was cut because all positions were full
};

class Generator {
 public:
  /// Runs up to `batch` requests at a time. The cache has room for `longest_prompt` tokens plus max_new_tokens tokens,
  /// but at most for the positions of the model. No prompt may be longer than `longest_prompt`.
  Generator(Model& model, const GenerationOptions& options, std::int64_t batch, std::int64_t longest_prompt);
  std::size_t cache_bytes() const { return decoder_.cache_bytes(); }
  /// Called with the index of a request and the next id, as soon as this id is chosen.
  using OnToken = std::function<void(std::size_t, std::int32_t)>;
  /// Returns the completions of at most `batch` requests, in the order of the requests. Throws Error(bad_data) if a
  /// logit is NaN or +infinity, or if all are -infinity.
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
