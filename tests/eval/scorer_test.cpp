// Model losses: on single windows, and on a stream divided into windows.
#include "eval/scorer.h"
#include "ckpt/open_model.h"

#include "eval/token_source.h"
#include "tests/eval/models.h"
#include "tests/relative_error.h"
#include "tests/scratch_folder.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("losses of whole windows equal transformers' in float64") {
  for (const Json& row : golden_lines("golden/evaluate/windows.jsonl")) {
    ModelSource source = open_model(row.at("model").as_string());
    Model model(source);
    auto ids = golden::numbers<std::int32_t>(row.at("ids"));
    auto want = golden::numbers<double>(row.at("losses"));
    Scorer scorer(model, 1, model.positions());
    auto got = scorer.losses(ids, 1, model.positions());
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 2e-5 * std::max(1.0, want[i]));

    // Computes the same losses from the logits at all positions.
    auto logits = model.logits(std::span(ids).first(want.size()));
    auto width = static_cast<std::size_t>(model.vocab());
    REQUIRE(logits.size() == want.size() * width);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const float* line = logits.data() + i * width;
      double sum = 0, top = *std::max_element(line, line + width);
      for (std::size_t v = 0; v < width; ++v) sum += std::exp(line[v] - top);
      double loss = top + std::log(sum) - line[static_cast<std::size_t>(ids[i + 1])];
      CHECK(std::abs(loss - want[i]) < 2e-5 * std::max(1.0, want[i]));
    }
  }
}

TEST_CASE("16-bit losses are within the dtype's rounding of float64's, from half the bytes of weights") {
  for (auto [compute, bound] : {std::pair{DType::bf16, 2e-2}, std::pair{DType::f16, 2e-3}}) {
    CAPTURE(std::string(name_of(compute)));
    double furthest = 0, mean = 0;
    std::int64_t compared = 0;
    for (const Json& row : golden_lines("golden/evaluate/windows.jsonl")) {
      ModelSource source = open_model(row.at("model").as_string());
      const std::size_t before = buffer_use().bytes;
      const Model wide(source);
      const std::size_t of_fp32 = buffer_use().bytes - before;
      Model model(source, 2, compute);
      CHECK(buffer_use().bytes - before - of_fp32 == of_fp32 / 2);
      auto ids = golden::numbers<std::int32_t>(row.at("ids"));
      auto want = golden::numbers<double>(row.at("losses"));
      Scorer scorer(model, 1, model.positions());
      auto got = scorer.losses(ids, 1, model.positions());
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        furthest = larger_or_nan(furthest, std::abs(got[i] - want[i]) / std::max(1.0, want[i]));
        mean += got[i] - want[i];
        ++compared;
      }
    }
    REQUIRE(compared > 0);
    CHECK(furthest < bound);
    CHECK(furthest > 0);
    CHECK(std::abs(mean / double(compared)) < bound / 5);
  }
}

TEST_CASE("a stream's loss does not depend on its chunking, nor beyond rounding on batch or threads") {
  for (const Json& row : golden_lines("golden/evaluate/streams.jsonl")) {
    ModelSource source = open_model(row.at("model").as_string());
    auto ids = golden::numbers<std::int32_t>(row.at("ids"));
    double loss = row.at("loss").as_number();
    std::int64_t seq_length = row.at("seq_length").as_int();
    for (int threads : {1, 3}) {
      Model model(source, threads);
      for (std::int64_t batch : {1, 2, 7}) {
        double first_sum = 0;
        for (std::size_t piece : {std::size_t{1}, std::size_t{13}, ids.size()}) {
          Scorer scorer(model, batch, seq_length);
          for (std::size_t i = 0; i < ids.size(); i += piece)
            scorer.push(std::span(ids).subspan(i, std::min(piece, ids.size() - i)));
          scorer.finish();
          CHECK(scorer.score().tokens == row.at("tokens").as_int());
          CHECK(scorer.score().windows == row.at("windows").as_int());
          CHECK(std::abs(scorer.score().loss() - loss) < 2e-6 * loss);
          CHECK(scorer.score().perplexity() == doctest::Approx(std::exp(loss)).epsilon(2e-5));
          if (first_sum == 0) first_sum = scorer.score().loss_sum;
          CHECK(scorer.score().loss_sum == first_sum);
        }
      }
    }
  }
}

TEST_CASE("empty streams have no loss, and unknown ids are refused") {
  ModelSource source = open_model("a");
  Model model(source);
  Scorer scorer(model, 2, 8);
  scorer.push(Ids{5});
  CHECK_THROWS_WITH_AS(scorer.push(Ids{3, 512}),
                       doctest::Contains("after 1 token: token id 512 is not in the model's vocabulary of 512"), Error);
  scorer.finish();
  CHECK(scorer.score().tokens == 0);
  CHECK_THROWS_AS(Scorer(model, 1, 65), Error);
  CHECK_THROWS_AS(model.logits(Ids(65, 1)), Error);
  CHECK_THROWS_AS(model.logits(Ids{-1}), Error);
}

namespace {

Ids read_whole(TokenSource& source) {
  Ids all, piece;
  while (source.next(piece)) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

Ids tokens_of(const std::vector<std::string>& paths, TextFormat format = TextFormat::guess) {
  TokenizerOptions numbers;
  numbers.type = "NullTokenizer";
  numbers.vocab_size = 100;
  auto tokenizer = load_tokenizer(numbers);
  return read_whole(*open_texts(paths, format, "text", *tokenizer));
}

}  // namespace

TEST_CASE("documents of a text stream: the position of the end-of-document token") {
  const ScratchFolder folder;
  auto file = [&](const std::string& name, const std::string& content) {
    write_file_atomic(folder / name, content);
    return folder / name;
  };
  std::string plain = file("plain.txt", "1 2 3"), other = file("other.txt", "4"), empty = file("empty.txt", "");
  std::string lines = file("lines.jsonl", "{\"text\": \"7 8\"}\n{\"text\": \"\"}\n{\"text\": [\"9\", \"10\"]}\n");
  std::string nameless = file("nameless", "{\"text\": \"7 8\"}\n");
  CHECK(tokens_of({plain}) == Ids{1, 2, 3});
  CHECK(tokens_of({plain, empty, other}) == Ids{1, 2, 3, 99, 4});
  CHECK(tokens_of({lines}) == Ids{7, 8, 99, 9, 10, 99});
  CHECK(tokens_of({plain, lines, other}) == Ids{1, 2, 3, 99, 7, 8, 99, 9, 10, 99, 4});
  CHECK(tokens_of({nameless}) == Ids{7, 8, 99});
  CHECK(tokens_of({plain, other}, TextFormat::text) == Ids{1, 2, 3, 99, 4});
  std::string broken = file("broken.jsonl", "{\"text\": \"7\"}\n{\"txt\": 1}\n");
  CHECK_THROWS_WITH_AS(tokens_of({broken}), doctest::Contains("broken.jsonl:2: "), Error);
}
