// Evaluation of a stream: the report, and what the data or the model do not allow.
#include "eval/evaluate.h"

#include <doctest/doctest.h>

#include "eval/scorer.h"
#include "tests/error_of.h"
#include "tests/eval/models.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A stream of `count` tokens, a third of them at a time.
class SomeTokens : public TokenSource {
 public:
  explicit SomeTokens(std::int32_t count) : count_(count) {}
  bool next(Ids& ids) override {
    ids.clear();
    const std::int32_t end = std::min(count_, given_ + (count_ + 2) / 3);
    for (; given_ < end; ++given_) ids.push_back(given_ * 7 % 50);
    return !ids.empty();
  }
  std::optional<std::int64_t> total() const override { return count_; }
  std::optional<std::int64_t> bytes() const override { return 2 * count_; }

 private:
  std::int32_t count_, given_ = 0;
};

EvalReport evaluate_some(const EvalOptions& options, std::int32_t tokens) {
  const ModelSource source = open_model("a");
  Model model(source);
  SomeTokens stream(tokens);
  Console console("test");
  console.quiet = true;
  return evaluate(options, model, stream, console);
}

}  // namespace

TEST_CASE("an evaluation reports the scorer's sums, whatever the batch size") {
  const EvalOptions options{.data_path = "web", .inputs = {}, .seq_length = 8, .batch_size = 2};
  const EvalReport report = evaluate_some(options, 50);
  const ModelSource source = open_model("a");
  Model model(source);
  Scorer scorer(model, 1, 8);
  SomeTokens stream(50);
  for (Ids ids; stream.next(ids);) scorer.push(ids);
  scorer.finish();
  CHECK(report.data == std::vector<std::string>{"web"});
  CHECK(report.score.loss() == doctest::Approx(scorer.score().loss()).epsilon(1e-6));
  CHECK(report.score.tokens == 49);
  CHECK(report.stream_tokens == 50);
  CHECK(report.score.windows == 7);
  CHECK(report.seq_length == 8);
  CHECK(report.bytes == 100);
  CHECK(report.line().ends_with("  tokens 49" + format("  bits/byte %.6f", *report.bits_per_byte()) + "\n"));
  CHECK(report.json().at("bits_per_byte").as_number() == *report.bits_per_byte());
  const EvalOptions by_default{.data_path = "", .inputs = {"a.txt", "b.txt"}, .seq_length = {}, .batch_size = {}};
  CHECK(evaluate_some(by_default, 50).seq_length == model.config().max_positions);
}

TEST_CASE("an evaluation needs two tokens, and windows that the model has positions for") {
  EvalOptions options{.data_path = "", .inputs = {"a.txt", "b.txt"}, .seq_length = {}, .batch_size = {}};
  CHECK(error_of([&] { evaluate_some(options, 1); }, Exit::bad_data)
            .starts_with("a.txt, b.txt have 1 token, too few to score; "));
  const GptConfig config = open_model("a").config();
  check_seq_length(options, config);
  options.seq_length = config.longest_sequence() + 1;
  CHECK(contains(error_of([&] { check_seq_length(options, config); }, Exit::usage), "is longer than the "));
}
