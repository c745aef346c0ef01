// Generation: greedy continuations equal transformers', with and without a cache, single and batched. Sampled
// continuations depend on the seed, but not on batch size or thread count.
#include "eval/generate.h"

#include <bit>

#include "ckpt/open_model.h"
#include "tests/eval/models.h"
#include "tests/relative_error.h"

using namespace mtl;
using namespace mtl::test;

namespace {

std::vector<Json> greedy_cases() { return golden_lines("golden/generate/greedy.jsonl"); }

void check_completion(const Completion& got, const Json& want) {
  CHECK(got.ids == golden::numbers<std::int32_t>(want.at("continuation")));
  auto logprobs = golden::numbers<double>(want.at("logprobs"));
  REQUIRE(got.logprobs.size() == logprobs.size());
  for (std::size_t i = 0; i < logprobs.size(); ++i) CHECK(std::abs(got.logprobs[i] - logprobs[i]) < 5e-5);
}

GenerationOptions greedy(std::int64_t tokens) {
  GenerationOptions options;
  options.greedy = true;
  options.max_new_tokens = tokens;
  return options;
}

Ids continue_one(Model& model, const GenerationOptions& options, const Ids& prompt) {
  std::vector<Request> requests{{prompt, 0}};
  return Generator(model, options).run(requests)[0].ids;
}

}  // namespace

TEST_CASE("greedy continuations equal transformers', one at a time and batched") {
  ModelSource source = open_model("a");
  Model model(source, 2);
  auto cases = greedy_cases();
  std::vector<Request> requests;
  for (const Json& row : cases) requests.push_back({golden::numbers<std::int32_t>(row.at("prompt")), requests.size()});
  Generator together(model, greedy(40)), alone(model, greedy(40));
  auto all = together.run(requests);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    check_completion(all[i], cases[i]);
    check_completion(alone.run(std::span(requests).subspan(i, 1))[0], cases[i]);
  }
}

TEST_CASE("16-bit logits with a cache equal those without, within the dtype's rounding") {
  ModelSource source = open_model("a");
  const Ids ids = golden::numbers<std::int32_t>(greedy_cases().front().at("prompt"));
  Model wide(source);
  const std::vector<float> exact = wide.logits(ids);
  const auto last = std::span(exact).last(static_cast<std::size_t>(wide.vocab()));
  const std::vector<double> expected(last.begin(), last.end());
  for (auto [compute, bound] : {std::pair{DType::bf16, 2e-2}, std::pair{DType::f16, 2e-3}}) {
    CAPTURE(std::string(name_of(compute)));
    Model model(source, 2, compute);
    Decoder decoder(model, 2, 64);
    CHECK(rms_relative(decoder.append(0, ids).data(), expected) < bound);
    std::span<const float> logits;
    for (std::int32_t id : ids) logits = decoder.append(1, std::span(&id, 1));  // one token at a time
    CHECK(rms_relative(logits.data(), expected) < bound);
    CHECK(rms_relative(model.logits(ids).data() + (ids.size() - 1) * expected.size(), expected) < bound);
  }
}

TEST_CASE("greedy continuations without a cache equal transformers'") {
  ModelSource source = open_model("a");
  Model model(source);
  for (const Json& row : greedy_cases()) {
    Ids ids = golden::numbers<std::int32_t>(row.at("prompt"));
    for (std::int32_t want : golden::numbers<std::int32_t>(row.at("continuation"))) {
      auto logits = model.logits(ids);
      ids.push_back(argmax(std::span(logits).last(static_cast<std::size_t>(model.vocab()))));
      CHECK(ids.back() == want);
    }
  }
}

namespace {

/// Together, these models have full and partial rotary positions, plain and scaled, query groups, normalized queries
/// and keys, and windows of 7 and 8 tokens.
const char* const kDecodedModels[] = {"gpt2_model/b",        "llama_model/llama",        "llama_model/qwen2",
                                      "llama_model/mistral", "llama_model/neox",         "family_model/llama3",
                                      "family_model/qwen3",  "family_model/neox_serial", "rotary_model/yarn"};

void check_decoder(Model& model) {
  Ids ids;
  for (std::int32_t i = 0; i < 48; ++i) ids.push_back(static_cast<std::int32_t>(i * 37 % model.vocab()));
  auto all = model.logits(ids);
  auto width = static_cast<std::size_t>(model.vocab());
  Decoder decoder(model, 2, 48);
  auto near = [&](std::span<const float> got, std::size_t row) {
    for (std::size_t v = 0; v < width; ++v) {
      if (!(std::abs(got[v] - all[row * width + v]) <= 2e-4)) return false;
    }
    return true;
  };
  CHECK(near(decoder.append(1, std::span(ids).first(20)), 19));
  CHECK(near(decoder.append(1, std::span(ids).subspan(20, 5)), 24));
  CHECK(near(decoder.append(0, std::span(ids).first(1)), 0));
  for (std::size_t i = 1; i <= 10; ++i) {  // two sequences of different lengths, in lockstep
    auto logits = decoder.step(Ids{ids[i], ids[24 + i]});
    CHECK(near(logits.first(width), i));
    CHECK(near(logits.subspan(width), 24 + i));
  }
  decoder.step(Ids{-1, ids[35]});
  CHECK(decoder.length_of(0) == 0);
  CHECK(decoder.length_of(1) == 36);
  CHECK_THROWS_AS(decoder.append(1, Ids(13, 1)), Error);
}

/// A decoder with fewer positions than the model does not use more of them.
void check_capacity(Model& model) {
  Decoder decoder(model, 2, 6);
  decoder.append(0, Ids(6, 1));
  decoder.append(1, Ids(4, 1));
  CHECK_THROWS_AS(decoder.append(0, Ids{1}), Error);
  CHECK_THROWS_AS(decoder.append(1, Ids(3, 1)), Error);
  CHECK_THROWS_AS(decoder.step(Ids{1, 1}), Error);
  CHECK(decoder.length_of(0) == 6);
  CHECK(decoder.length_of(1) == 4);
  decoder.step(Ids{-1, 1});
  CHECK(decoder.length_of(0) == 0);
  CHECK(decoder.length_of(1) == 5);
}

}  // namespace

TEST_CASE("a cache produces the logits of a full pass, for tokens appended in any pieces") {
  for (const char* name : kDecodedModels) {
    CAPTURE(name);
    ModelSource source = open_golden(name);
    Model model(source);
    check_decoder(model);
    check_capacity(model);
  }
}

TEST_CASE("with rotary frequencies that change with the length, greedy continuations equal those without a cache") {
  for (const char* name : {"rotary_model/longrope", "rotary_model/dynamic_above"}) {
    CAPTURE(name);
    ModelSource source = open_golden(name);
    Model model(source);
    std::vector<Request> requests;
    const Json cases = Json::read(cat("golden/", name, "/greedy.json"));
    for (const Json& row : cases.as_array())
      requests.push_back({golden::numbers<std::int32_t>(row.at("prompt")), requests.size()});
    REQUIRE(requests.size() == 2);
    const std::vector<Completion> together = Generator(model, greedy(10)).run(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Ids want = golden::numbers<std::int32_t>(cases.as_array()[i].at("tokens"));
      CHECK(together[i].ids == want);
      CHECK(continue_one(model, greedy(10), requests[i].prompt) == want);
      CHECK(together[i].slides == 0);
    }
  }
}

TEST_CASE("the bytes of a cache are those of each group's keys and values at each position") {
  for (const char* name : {"llama_model/mistral", "family_model/qwen3"}) {
    CAPTURE(name);
    ModelSource source = open_golden(name);
    Model model(source);
    const GptConfig& config = model.config();
    REQUIRE(config.num_query_groups < config.num_heads);
    const std::int64_t floats = 2 * config.num_layers * 3 * 10 * config.num_query_groups * config.head_dim;
    CHECK(Decoder(model, 3, 10).cache_bytes() == static_cast<std::size_t>(floats) * sizeof(float));
  }
}

TEST_CASE("the cache has room for the prompt and the new tokens, not for all positions of the model") {
  ModelSource source = open_model("a");
  Model model(source);
  Json row = greedy_cases()[0];
  Ids prompt = golden::numbers<std::int32_t>(row.at("prompt"));
  Generator few(model, greedy(3)), all(model, greedy(3));
  const GptConfig& config = model.config();
  std::int64_t token_bytes = 2 * config.num_layers * config.num_query_groups * config.head_dim * 4;  // K and V
  Ids want = golden::numbers<std::int32_t>(row.at("continuation"));
  std::vector<Request> requests{{prompt, 0}, {prompt, 1}};
  const auto room = [&](std::int64_t tokens) {
    return static_cast<std::size_t>(2 * token_bytes * std::min(tokens, model.positions()));
  };
  for (const Completion& got : few.run(requests)) CHECK(got.ids == Ids(want.begin(), want.begin() + 3));
  CHECK(few.cache_bytes() == room(std::ssize(prompt) + 3));
  few.run(std::vector<Request>{Request{Ids{1}, 0}});
  CHECK(few.cache_bytes() == room(std::ssize(prompt) + 3));
  prompt.push_back(1);
  CHECK(few.run(std::vector<Request>{Request{prompt, 0}})[0].ids == continue_one(model, greedy(3), prompt));
  CHECK(few.cache_bytes() == room(static_cast<std::int64_t>(std::bit_ceil(prompt.size())) + 3));  // with spare room
  prompt.resize(1000, 1);
  all.run(std::vector<Request>{{prompt, 0}, {prompt, 1}});
  CHECK(all.cache_bytes() == room(model.positions()));
}

TEST_CASE("the stop id ends a continuation and is its last id") {
  ModelSource source = open_model("a");
  Model model(source);
  Json row = greedy_cases()[1];
  Ids want = golden::numbers<std::int32_t>(row.at("continuation"));
  auto at = std::find(want.begin() + 1, want.end(), want[4]) - want.begin();
  GenerationOptions options = greedy(40);
  options.stops = {-1, want[4]};
  std::vector<Request> requests{{golden::numbers<std::int32_t>(row.at("prompt")), 0}};
  std::vector<std::int32_t> seen;
  auto result = Generator(model, options).run(requests, [&](std::size_t, std::int32_t id) { seen.push_back(id); })[0];
  CHECK(result.stopped);
  CHECK(result.ids == Ids(want.begin(), want.begin() + at + 1));
  CHECK(seen == result.ids);
}

TEST_CASE("with all positions used, generation continues from the last half") {
  for (const char* name : {"gpt2_model/a", "llama_model/llama", "llama_model/mistral", "family_model/qwen3"}) {
    CAPTURE(name);
    ModelSource source = open_golden(name);
    Model model(source);
    REQUIRE(model.positions() == 64);
    Ids prompt;
    for (std::int32_t i = 0; i < 100; ++i) prompt.push_back(static_cast<std::int32_t>(i * 31 % model.vocab()));
    Ids got = continue_one(model, greedy(80), prompt);
    REQUIRE(got.size() == 80);
    // Computes the expected ids step by step. Starts from the last 64 tokens. Whenever all 64 positions are full,
    // continues from the last 32.
    Ids all = prompt, context(prompt.end() - 64, prompt.end());
    for (std::size_t i = 0; i < got.size(); ++i) {
      auto logits = model.logits(context);
      std::int32_t next = argmax(std::span(logits).last(static_cast<std::size_t>(model.vocab())));
      CHECK(got[i] == next);
      all.push_back(next);
      context.push_back(next);
      if (context.size() > 64) context.assign(all.end() - 32, all.end());
    }
  }
}

TEST_CASE("sampled ids depend on seed, number and position, not on batch or threads") {
  ModelSource source = open_model("a");
  GenerationOptions options;
  options.max_new_tokens = 12;
  options.sampling.top_p = 0.9;
  std::vector<Request> requests;
  for (std::int32_t i = 0; i < 5; ++i)
    requests.push_back({Ids(static_cast<std::size_t>(1 + 2 * i), 40 + i), static_cast<std::uint64_t>(i)});
  Model one(source, 1), three(source, 3);
  auto want = Generator(one, options).run(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CHECK(Generator(three, options).run(std::span(requests).subspan(i, 1))[0].ids == want[i].ids);
  }
  options.seed = 7;
  CHECK(Generator(one, options).run(requests)[0].ids != want[0].ids);
  options.seed = 1234;
  std::vector<Request> other{{requests[0].prompt, 9}};
  CHECK(Generator(one, options).run(other)[0].ids != want[0].ids);
}
