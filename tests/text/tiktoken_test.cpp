// TikTokenizer: compared with a plain BPE by rank. The vocabulary has tokens that no merges produce.
#include "text/tiktoken.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/text/golden.h"
#include "tests/text/naive_bpe.h"
#include "tests/text/random_text.h"
#include "text/bpe_vocabulary.h"

using namespace mtl;

namespace {

/// Returns GPT-2's single bytes and every third of its other tokens. Merging these tokens cannot produce most of them.
std::vector<std::string> test_ranks() {
  BpeVocabulary gpt2 = read_vocab_and_merges("../share/gpt2/vocab.json", "../share/gpt2/merges.txt");
  std::vector<std::string> ranks;
  for (std::size_t id = 0; id < 20000; ++id) {
    if (id < 256 || id % 3 == 0) ranks.push_back(token_bytes(gpt2.tokens[id]));
  }
  for (const char* token : {"aa", "aaa", "aaaa", "ba", "aba", "\xE4\xB8", "\xE4\xB8\xAD", "  ", "the t"}) {
    if (std::count(ranks.begin(), ranks.end(), token) == 0) ranks.emplace_back(token);
  }
  return ranks;
}

/// Encodes by the definition. Keeps a pre-token that is a token, and otherwise repeatedly merges the adjacent pair with
/// the lowest rank.
std::vector<std::int32_t> plain_encode(const std::map<std::string, std::int32_t>& ids, const std::string& text,
                                       const SplitStep& step) {
  std::vector<std::int32_t> out;
  auto splitter = make_splitter({step});
  splitter->start(text);
  const char* at = text.data();
  const char* end[1];
  while (splitter->next(end) > 0) {
    std::string pretoken(at, end[0]);
    at = end[0];
    std::vector<std::string> parts;
    for (char byte : pretoken) parts.emplace_back(1, byte);
    if (ids.count(pretoken) > 0) parts = {pretoken};
    merge_naively(parts, [&](const std::string& left, const std::string& right) {
      const auto found = ids.find(left + right);
      return found == ids.end() ? std::nullopt : std::optional(found->second);
    });
    for (const std::string& part : parts) out.push_back(ids.at(part));
  }
  return out;
}

}  // namespace

TEST_CASE("TikTokenizer: equals a plain BPE by rank, on random Unicode") {
  std::vector<std::string> ranks = test_ranks();
  for (std::string pattern : {"v1", "v2"}) {
    TokenizerOptions options;
    options.tiktoken.pattern = pattern;
    TikTokenizer tokenizer(ranks, "ranks", options);
    CHECK(tokenizer.vocab_size() == static_cast<std::int64_t>(ranks.size()) + 1000);
    CHECK(tokenizer.eod() == 2);
    std::map<std::string, std::int32_t> ids;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) ids[ranks[rank]] = static_cast<std::int32_t>(rank) + 1000;
    using enum SplitRules::Contractions;
    const bool is_v2 = pattern == "v2";
    const SplitRules rules = {.contractions = none, .cased = is_v2, .three_digits = false, .with_slashes = is_v2};
    auto encoder = tokenizer.make_encoder(EncoderMemory::small);
    std::mt19937 random(6);
    for (int round = 0; round < 1500; ++round) {
      std::string text = random_text(random);
      if (round % 3 == 0) text = std::string(random() % 60, 'a') + "ba" + text + "abaaba<s>";
      CAPTURE(text);
      std::vector<std::int32_t> out;
      encoder->append(text, out);
      REQUIRE(out == plain_encode(ids, text, rules));
      REQUIRE(tokenizer.decode(out) == text);
    }
  }
}

TEST_CASE("TikTokenizer: special tokens come first, saved files load again, and contradictory options are refused") {
  std::vector<std::string> ranks = test_ranks();
  auto available = static_cast<std::int64_t>(ranks.size());
  TokenizerOptions options;
  options.parse_special_tokens = true;
  options.tiktoken.num_special_tokens = 10;
  options.vocab_size = 1010;
  TikTokenizer tokenizer(ranks, "ranks", options);
  CHECK(tokenizer.vocab_size() == 1010);
  CHECK(tokenizer.encode("<s>a<SPECIAL_9></s>") == std::vector<std::int32_t>{1, 74, 9, 2});
  CHECK(tokenizer.decode({{0, 5, 7}}) == "<unk><cls><SPECIAL_7>");
  CHECK_THROWS_AS(tokenizer.decode({{1010}}), Error);
  CHECK(tokenizer.pad() == 4);

  const test::ScratchFolder folder;
  tokenizer.save(folder.path());
  auto found = find_tokenizer(folder.path());
  REQUIRE(found);
  auto loaded = load_tokenizer(*found);
  CHECK(loaded->type() == "TikTokenizer");
  CHECK(loaded->hash() == tokenizer.hash());
  CHECK(loaded->encode("<s> the cat") == TikTokenizer(ranks, "ranks", *found).encode("<s> the cat"));

  auto refused = [&](auto&& change, const char* reason) {
    TokenizerOptions wrong = options;
    change(wrong);
    CHECK_THROWS_WITH_AS(TikTokenizer(ranks, "ranks", wrong), doctest::Contains(reason), Error);
  };
  refused([](auto& o) { o.tiktoken.pattern = "v3"; }, "v1 or v2");
  refused([](auto& o) { o.tiktoken.num_special_tokens = 3; }, "at least 7");
  refused([](auto& o) { o.tiktoken.special_tokens = {"<s>", "</s>"}; }, "<unk>");
  refused([](auto& o) { o.tiktoken.special_tokens = {"<s>", "</s>", "<unk>", "<s>"}; }, "twice");
  refused([](auto& o) { o.tiktoken.special_tokens = {"<s>", "</s>", "<unk>", "<SPECIAL_5>"}; }, "id 5");
  refused([](auto& o) { o.vocab_size = 10; }, "more than");
  refused([](auto& o) { o.vocab_size = 200; }, "no token for byte");
  refused([&](auto& o) { o.vocab_size = available + 11; }, "or less");
  options.tiktoken.num_special_tokens = 0;
  options.vocab_size = {};
  CHECK(TikTokenizer(ranks, "ranks", options).encode("a") == std::vector<std::int32_t>{64});
  CHECK(TikTokenizer(ranks, "ranks", options).pad() == -1);
  CHECK_THROWS_WITH_AS(TikTokenizer(ranks, "ranks", options).eod(),
                       doctest::Contains("--tiktoken-num-special-tokens is 0"), Error);
}

TEST_CASE("TikTokenizer: reads ranks as lines and as JSON, and refuses broken files with the reason") {
  auto lines = parse_tiktoken_ranks("YQ== 0\nYWI= 1\r\n\n4Lit 3\n", "ranks");
  CHECK(lines == std::vector<std::string>{"a", "ab", "", "\xE0\xB8\xAD"});
  auto json = parse_tiktoken_ranks(R"([{"rank": 0, "token_bytes": "YQ==", "token_str": "a"},
                                       {"rank": 1, "token_bytes": "//8=", "token_str": null}])",
                                   "ranks");
  CHECK(json == std::vector<std::string>{"a", "\xFF\xFF"});
  const auto message_of = [](const std::string& text) {
    return test::error_of([&] { parse_tiktoken_ranks(text, "ranks"); }, Exit::bad_data);
  };
  CHECK(message_of(std::string(2000, 'Q') + " 7\n") ==
        "ranks:1: the token with rank 7 has 1500 bytes; at most 1024 are supported");
  for (const auto& [content, reason] : std::vector<std::pair<std::string, std::string>>{
           {"", "no tokens"},
           {"\xEF\xBB\xBFYQ== 0", "ranks: this is text with a byte order mark"},
           {"YQ==", "ranks:1: expected"},
           {"YQ== 0\nYQ= 1", "ranks:2: \"YQ=\""},
           {"Y(== 0", "base64"},
           {"YQ== x", "ranks:1: the rank is not an integer from 0 to"},
           {"YQ== 99999999999", "the rank is not an integer from 0 to"},
           {"YQ== 0\nYg== 0", "another token already has rank 0"},
           {R"([{"rank": 1, "token_bytes": "YQ=="}])", "entry 0 has rank 1"},
           {R"([{"token_bytes": "YQ=="}])", "rank"},
           {R"({"a": 1})", "not a valid list"}}) {
    CAPTURE(content);
    std::string message = message_of(content);
    CAPTURE(message);
    CHECK(message.find(reason) != std::string::npos);
  }
  TokenizerOptions options;
  std::vector<std::string> twice = test_ranks();
  twice.push_back("a");
  CHECK_THROWS_WITH_AS(TikTokenizer(twice, "ranks", options), doctest::Contains("two ranks"), Error);
}
