// BPE training: produces the same merges as Hugging Face's trainer, byte for byte. Tests each rule on small texts.
#include "text/bpe_trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "tests/sha256.h"
#include "tests/text/golden.h"
#include "text/bpe_tokenizer.h"
#include "text/decompress.h"
#include "text/json_lines.h"

using namespace mtl;

namespace {

std::string golden_corpus(const std::string& name) {
  return read_all(name == "tinyshakespeare.txt" ? "../share/demo/tinyshakespeare.txt.xz"
                                                : cat("golden/corpora/", name, ".xz"));
}

WordCounts count_units(const std::string& text, const std::string& unit) {
  WordCounts counts;
  if (unit == "document") {
    counts.add_text(text);
    return counts;
  }
  REQUIRE(unit == "lines");
  for_each_text_line(text, [&](std::string_view line) { counts.add_text(line); });
  return counts;
}

std::vector<std::string> merges_of(const BpeVocabulary& vocabulary) {
  std::vector<std::string> out;
  for (const Merge& merge : vocabulary.merges) out.push_back(cat(merge.left, "+", merge.right));
  return out;
}

std::map<std::string, std::int64_t> table_of(const WordCounts& counts) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [word, count] : counts.words()) out.emplace(word, count);
  return out;
}

BpeVocabulary train(std::string_view text, std::int64_t merges) {
  WordCounts counts;
  counts.add_text(text);
  return train_bpe(counts, {.vocab_size = 256 + merges});
}

}  // namespace

TEST_CASE("training: vocabularies equal the golden ones, and encode their corpus with the golden ids") {
  Json golden = Json::read("golden/tokenizer/bpe_training.json");
  for (const Json& item : golden.as_array()) {
    CAPTURE(item.at("folder").as_string());
    std::string text = golden_corpus(item.at("corpus").as_string());
    WordCounts counts = count_units(text, item.at("unit").as_string());
    BpeVocabulary vocabulary =
        train_bpe(counts, {.vocab_size = item.at("vocab_size").as_int(), .special_tokens = {kEndOfText}});
    CHECK(static_cast<std::int64_t>(vocabulary.merges.size()) == item.at("merges").as_int());
    std::string folder = "golden/tokenizer/" + item.at("folder").as_string();
    CHECK(vocab_json_text(vocabulary) == read_file(folder + "/vocab.json"));
    CHECK(merges_text(vocabulary) == read_file(folder + "/merges.txt"));
    CHECK(sha256(vocab_json_text(vocabulary)) == item.at("vocab_json_sha256").as_string());
    CHECK(sha256(merges_text(vocabulary)) == item.at("merges_txt_sha256").as_string());

    BpeTokenizer tokenizer(vocabulary, folder);
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    CHECK(static_cast<std::int64_t>(ids.size()) == item.at("corpus_tokens").as_int());
    CHECK(sha256(little_endian<std::uint16_t>(ids)) == item.at("corpus_ids_u16le_sha256").as_string());
    CHECK(tokenizer.decode(ids) == text);
  }
}

TEST_CASE("training: counts pairs at every position, breaks ties by the smaller pair, ends when no pair is left") {
  CHECK(merges_of(train("aaa ab", 1)) == std::vector<std::string>{"a+a"});
  CHECK(merges_of(train("bc ab", 1)) == std::vector<std::string>{"a+b"});
  CHECK(merges_of(train("abab", 10)) == std::vector<std::string>{"a+b", "ab+ab"});
  CHECK(merges_of(train("aaaaa", 10)) == std::vector<std::string>{"a+a", "aa+a", "aa+aaa"});
  CHECK(train("a b", 0).merges.empty());
  CHECK_THROWS_AS(train("a", -1), Error);
}

TEST_CASE("training: a merge that spells an existing token keeps its id") {
  WordCounts counts;
  counts.add_text("abab abc");
  BpeVocabulary vocabulary = train_bpe(counts, {.vocab_size = 257 + 3, .special_tokens = {"ab"}});
  CHECK(merges_of(vocabulary)[0] == "a+b");
  CHECK(vocabulary.find("ab") == 0);
  CHECK(vocabulary.tokens.size() == 260);
  CHECK(vocabulary.merges.size() == 4);
}

TEST_CASE("training: equals recounting everything for each merge") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::string text;
    while (text.size() < 120) text += "abc  "[random() % 5];
    CAPTURE(text);
    WordCounts counts;
    counts.add_text(text);
    BpeVocabulary vocabulary = train_bpe(counts, {.vocab_size = 256 + 20});
    std::map<std::string, std::uint64_t> ids;
    for (std::uint64_t id = 0; id < 256; ++id) ids[std::string(vocabulary.tokens[id])] = id;
    std::vector<std::pair<std::vector<std::string>, std::int64_t>> words;
    for (const auto& [word, count] : counts.words()) {
      words.emplace_back();
      words.back().second = count;
      for (char byte : word) words.back().first.push_back(byte_stand_ins()[static_cast<unsigned char>(byte)]);
    }
    std::vector<std::string> merges;
    while (merges.size() < 20) {
      std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t> pairs;
      for (const auto& [symbols, count] : words) {
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
          pairs[{ids.at(symbols[i]), ids.at(symbols[i + 1])}] += count;
      }
      if (pairs.empty()) break;
      auto best = std::max_element(pairs.begin(), pairs.end(), [](auto& a, auto& b) { return a.second < b.second; });
      const std::string left(vocabulary.tokens[best->first.first]), right(vocabulary.tokens[best->first.second]);
      merges.push_back(left + "+" + right);
      ids.emplace(left + right, ids.size());
      for (auto& [symbols, count] : words) {
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
          if (symbols[i] != left || symbols[i + 1] != right) continue;
          symbols[i] += right;
          symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
      }
    }
    CHECK(merges_of(vocabulary) == merges);
  }
}

TEST_CASE("training: a text counted in parts has the same word counts") {
  std::string text = golden_corpus("wikitext2-valid.txt");
  WordCounts whole, parts;
  whole.add_text(text);
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t cut = std::min(find_safe_cut(text, begin + 1000), text.size());
    WordCounts part;
    part.add_text(std::string_view(text).substr(begin, cut - begin));
    parts.add(part);
    begin = cut;
  }
  CHECK(table_of(whole) == table_of(parts));
}

TEST_CASE("training: a text in any script is cut for counting only at ends of words") {
  std::mt19937 random(4);
  const char* const kinds[] = {"a", "\u4E00", "\u3000", " ",    "\n",   "\u00A0", "1",
                               ".", "'s",     "\xFF",   "\xE3", "\x80", "\u0085"};
  for (int round = 0; round < 400; ++round) {
    std::string text;
    while (text.size() < 60) text += kinds[random() % std::size(kinds)];
    CAPTURE(text);
    WordCounts whole, parts;
    whole.add_text(text);
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view part = rest.substr(0, find_safe_cut(rest, 1));
      parts.add_text(part);
      rest.remove_prefix(part.size());
    }
    CHECK(table_of(whole) == table_of(parts));
  }
}

TEST_CASE("training: rare pairs are not merged, and progress is reported") {
  WordCounts counts;
  counts.add_text("ab ab ab cd cd ef");
  auto merges = [&](std::int64_t min_frequency) {
    return train_bpe(counts, {.vocab_size = 300, .min_frequency = min_frequency}).merges.size();
  };
  CHECK(merges(0) == 6);
  CHECK(merges(2) == 4);
  CHECK(merges(3) == 1);
  CHECK(merges(4) == 0);
  std::vector<std::size_t> reported;
  counts.add_text(golden_corpus("tinyshakespeare.txt"));
  train_bpe(counts, {.vocab_size = 256 + 200, .on_merges = [&](std::size_t n) { reported.push_back(n); }});
  CHECK(reported == std::vector<std::size_t>{64, 128, 192});
}

TEST_CASE("word counts: keep their own copy of the words, add up, and can be cleared") {
  WordCounts counts, other;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += cat(" w", i % 5000);
  counts.add_text(text);
  std::string().swap(text);
  CHECK(counts.size() == 2 + 4999);  // " w", and the numbers 0 to 4999
  other.add_text(std::string(100000, 'x') + " w");
  other.add(counts);
  CHECK(table_of(other).at(" w") == 20001);
  CHECK(table_of(other).at("4999") == 4);
  CHECK(other.bytes() == counts.bytes() + 100000);
  other.clear();
  CHECK(other.size() == 0);
}
