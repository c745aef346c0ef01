// Sampling: filters and probabilities for the next token.
#include "eval/sampling.h"
#include "ckpt/open_model.h"

#include "tests/eval/models.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("filtered distributions equal Megatron's and transformers'") {
  ModelSource source = open_model("a");
  Model model(source);
  Candidates got;
  for (const Json& row : golden_lines("golden/generate/sampling.jsonl")) {
    Ids prompt = golden::numbers<std::int32_t>(row.at("prompt"));
    auto logits = model.logits(prompt);
    const SamplingOptions options{.temperature = row.at("temperature").as_number(),
                                  .top_k = row.at("top_k").as_int(),
                                  .top_p = row.at("top_p").as_number()};
    filter_logits(std::span(logits).last(512), options, got);
    CHECK(got.ids == golden::numbers<std::int32_t>(row.at("kept")));
    auto want = golden::numbers<double>(row.at("probs"));
    REQUIRE(got.probs.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got.probs[i] - want[i]) < 1e-5);
  }
}

TEST_CASE("ties: top-k keeps all equal to the k-th, greedy picks the lowest id") {
  Candidates got;
  for (const Json& row : golden_lines("golden/generate/ties.jsonl")) {
    auto logits = golden::numbers<float>(row.at("logits"));
    filter_logits(logits, {.top_k = row.at("top_k").as_int()}, got);
    CHECK(got.ids == golden::numbers<std::int32_t>(row.at("kept")));
    auto want = golden::numbers<double>(row.at("probs"));
    for (std::size_t i = 0; i < got.ids.size(); ++i)
      CHECK(std::abs(got.probs[i] - want[static_cast<std::size_t>(got.ids[i])]) < 1e-5);
    CHECK(argmax(logits) == row.at("argmax").as_int());
  }
}

TEST_CASE("top-p: keeps the token that crosses p and at least one; 1 keeps all") {
  std::vector<float> logits{std::log(0.5f), std::log(0.25f), std::log(0.15f), std::log(0.1f)};
  Candidates got;
  auto kept = [&](double p) {
    filter_logits(logits, {.top_p = p}, got);
    return got.ids;
  };
  CHECK(kept(0.4) == Ids{0});
  CHECK(kept(0.6) == Ids{0, 1});
  CHECK(kept(0.76) == Ids{0, 1, 2});
  CHECK(kept(0.95) == Ids{0, 1, 2, 3});
  CHECK(kept(1e-9) == Ids{0});
  CHECK(kept(1) == Ids{0, 1, 2, 3});
  CHECK(kept(0) == Ids{0, 1, 2, 3});
}

TEST_CASE("temperature: from the largest logits alone to uniform, without overflow") {
  std::vector<float> logits{80, -90, 79.9f, 80};
  Candidates got;
  filter_logits(logits, {.temperature = 1e-308}, got);
  CHECK(got.probs == std::vector<double>{0.5, 0, 0, 0.5});
  filter_logits(logits, {.temperature = 1e-308, .top_k = 2, .top_p = 0.9}, got);
  CHECK(got.ids == Ids{0, 3});
  filter_logits(logits, {.temperature = 1e300}, got);
  for (double p : got.probs) CHECK(p == doctest::Approx(0.25));
}

TEST_CASE("draws follow the distribution and are reproducible") {
  Candidates candidates{{3, 8, 20}, {0.2, 0.5, 0.3}};
  CHECK(pick(candidates, 0) == 3);
  CHECK(pick(candidates, 0.1999) == 3);
  CHECK(pick(candidates, 0.2001) == 8);
  CHECK(pick(candidates, 0.7001) == 20);
  CHECK(pick(candidates, std::nextafter(1.0, 0.0)) == 20);
  CHECK(pick({{1, 2}, {0.4, 0.4}}, 0.9) == 2);
  std::vector<double> counts(21);
  for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
    for (std::uint64_t position = 0; position < 1000; ++position) {
      double u = uniform_draw(1234, sequence, position);
      REQUIRE((u >= 0 && u < 1));
      counts[static_cast<std::size_t>(pick(candidates, u))] += 1.0 / 20000;
    }
  }
  CHECK(counts[3] == doctest::Approx(0.2).epsilon(0.05));
  CHECK(counts[8] == doctest::Approx(0.5).epsilon(0.05));
  CHECK(uniform_draw(1, 2, 3) == uniform_draw(1, 2, 3));
  CHECK(uniform_draw(1, 2, 3) != uniform_draw(2, 2, 3));
  CHECK(uniform_draw(1, 2, 3) != uniform_draw(1, 3, 3));
  CHECK(uniform_draw(1, 2, 3) != uniform_draw(1, 2, 4));
}
