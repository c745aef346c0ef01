#include "eval/generate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "models/companion_files.h"
#include "nn/rotary.h"

namespace mtl {

struct Generator::Sequence {
  const Request& request;
  std::size_t index;
  const OnToken& on_token;
  std::vector<std::int32_t> ids;  // the prompt, then the new tokens
  Completion result;
  bool done = false;
};

namespace {

std::span<const std::int32_t> last_ids(const std::vector<std::int32_t>& ids, std::int64_t count) {
  return std::span(ids).last(std::min<std::size_t>(ids.size(), count));
}

/// The positions to allocate per sequence.
std::int64_t max_positions(std::int64_t positions, std::int64_t longest_prompt, std::int64_t new_tokens) {
  return std::min(positions, std::min(longest_prompt, positions) + std::clamp<std::int64_t>(new_tokens, 0, positions));
}

}  // namespace

std::vector<std::int32_t> end_tokens(const Tokenizer* tokenizer, const ModelSource& source) {
  std::vector<std::int64_t> ids = generation_eos_ids(source.folder());
  if (ids.empty() && tokenizer != nullptr) return {tokenizer->eod()};
  if (ids.empty()) ids = eos_ids(source.hf_config());
  std::vector<std::int32_t> out;
  for (std::int64_t id : ids) {
    if (id >= 0 && id < source.config().vocab_size) out.push_back(static_cast<std::int32_t>(id));
  }
  return out;
}

/// Makes a decoder, unless the present one has room. One that replaces another has spare room for longer prompts.
void Generator::make_room(std::span<const Request> requests) {
  std::size_t longest = 0;
  for (const Request& request : requests) longest = std::max(longest, request.prompt.size());
  std::int64_t count = std::ssize(requests);
  if (decoder_ && count <= decoder_->sequences() && std::cmp_less_equal(longest, longest_prompt_)) return;
  longest_prompt_ = static_cast<std::int64_t>(decoder_ ? std::bit_ceil(longest) : longest);
  if (decoder_) count = std::max(count, decoder_->sequences());
  decoder_.reset();  // frees its memory before the next one allocates
  decoder_.emplace(model_, count, max_positions(model_.positions(), longest_prompt_, options_.max_new_tokens));
  step_ids_.resize(count);
}

/// Chooses a sequence's next token, given the logits at its last token.
void Generator::choose(Sequence& sequence, std::span<const float> logits) {
  Completion& result = sequence.result;
  std::int32_t id = argmax(logits);
  double logprob = log_probability(logits, id);
  if (!std::isfinite(logprob)) {
    fail(Exit::bad_data, kNotFinite);
  }
  if (!options_.greedy) {
    filter_logits(logits, options_.sampling, candidates_);
    id = pick(candidates_,
              uniform_draw(static_cast<std::uint32_t>(options_.seed), sequence.request.number, result.ids.size()));
    logprob = log_probability(logits, id);
  }
  result.logprobs.push_back(logprob);
  result.ids.push_back(id);
  sequence.ids.push_back(id);
  result.stopped = std::ranges::find(options_.stops, id) != options_.stops.end();
  sequence.done = result.stopped || std::ssize(result.ids) >= options_.max_new_tokens;
  if (sequence.on_token) sequence.on_token(sequence.index, id);
}

/// Generates one token for every unfinished sequence. Returns false if all of them are finished.
bool Generator::step(std::vector<Sequence>& sequences) {
  auto active = [](const Sequence& sequence) { return !sequence.done; };
  if (std::ranges::none_of(sequences, active)) return false;
  std::ranges::fill(step_ids_, -1);
  std::vector<std::pair<Sequence*, std::int64_t>> again;  // sequences to start again from their last tokens
  for (Sequence& sequence : sequences) {
    if (sequence.done) continue;
    const std::int64_t length = decoder_->length_of(sequence.index);
    if (length == model_.positions()) {
      ++sequence.result.slides;
      again.emplace_back(&sequence, std::max<std::int64_t>(1, model_.positions() / 2));
    } else if (rotary_frequencies_change(model_.config(), length)) {
      again.emplace_back(&sequence, length + 1);
    } else {
      step_ids_[sequence.index] = sequence.ids.back();
    }
  }
  std::size_t width = model_.vocab();
  auto all_logits = decoder_->step(step_ids_);
  for (Sequence& sequence : sequences) {
    if (step_ids_[sequence.index] >= 0) choose(sequence, all_logits.subspan(sequence.index * width, width));
  }
  for (const auto& [sequence, kept] : again)  // the step emptied their caches
    choose(*sequence, decoder_->append(sequence->index, last_ids(sequence->ids, kept)));
  return true;
}

std::vector<Completion> Generator::run(std::span<const Request> requests, const OnToken& on_token) {
  make_room(requests);
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sequences.push_back({.request = requests[i],
                         .index = i,
                         .on_token = on_token,
                         .ids = requests[i].prompt,
                         .result = {},
                         .done = options_.max_new_tokens <= 0});
  }
  for (Sequence& sequence : sequences) {
    if (sequence.done) continue;
    std::int64_t b = sequence.index;
    decoder_->clear(b);
    choose(sequence, decoder_->append(b, last_ids(sequence.ids, model_.positions())));
  }
  while (step(sequences)) {
  }
  std::vector<Completion> results;
  for (Sequence& sequence : sequences) results.push_back(std::move(sequence.result));
  return results;
}

}  // namespace mtl
