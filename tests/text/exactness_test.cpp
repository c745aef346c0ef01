// BpeTokenizer: equals the plain ReferenceBpe (reference_bpe.h) and takes linear time on any text.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

#include "tests/text/golden.h"
#include "tests/text/reference_bpe.h"
#include "text/bpe_encoder.h"
#include "text/decompress.h"
#include "text/pretokenizer.h"

using namespace mtl;

namespace {

constexpr const char* kClasses = "golden/tokenizer/unicode_classes.json";

BpeVocabulary gpt2_vocabulary() {
  return read_vocab_and_merges("../share/gpt2/vocab.json", "../share/gpt2/merges.txt");
}

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t end) { return random() % end; }

template <class Items>
auto one_of(Random& random, const Items& items) {
  return items[below(random, static_cast<std::uint32_t>(std::size(items)))];
}

std::string code_points(Random& random, std::uint32_t first, std::uint32_t last) {
  std::string out;
  for (std::uint32_t n = 1 + below(random, 6); n > 0; --n) append_utf8(out, first + below(random, last - first + 1));
  return out;
}

/// Returns a word of a random kind, so that texts mix kinds as real texts do. Any kind can start or end a splitter
/// block.
std::string random_word(Random& random) {
  static const char* const kContractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'l", "'r", "'", "''"};
  static const char* const kSpaces[] = {" ",     "  ",       "\n",       "\t",           "\r\n",         "\v\f",
                                        "\n\n ", "\xC2\xA0", "\xC2\x85", "\xE2\x80\x89", "\xE3\x80\x80", "        "};
  static const char* const kEmoji[] = {"\U0001F600", "\U0001F468\u200D\U0001F469\u200D\U0001F467",
                                       "\U0001F1E9\U0001F1EA", "\u2764\uFE0F", "\U0001F44D\U0001F3FD"};
  static const char* const kNumbers[] = {"7",      "2024",   "\u0663\u0664", "\u2167",
                                         "\u00BD", "\u2460", "\U0001D7D8",   "\u3007"};
  static const char* const kMarks[] = {"\u0301", "e\u0301", "\u20E3", "\u093F", "\u200B", "\uFEFF", "\u180E"};
  static const char* const kBroken[] = {"\xFF",         "\xC3",     "\xE4\xB8",         "\xF0\x9F\x98", "\x80\x80",
                                        "\xED\xA0\x80", "\xC0\xAF", "\xF4\x90\x80\x80", "\xE3\x80"};
  switch (below(random, 16)) {
    case 0:
      return one_of(random, kContractions);
    case 1:
    case 2:
      return one_of(random, kSpaces);
    case 3:
      return one_of(random, kEmoji);
    case 4:
      return one_of(random, kNumbers);
    case 5:
      return one_of(random, kMarks);
    case 6:
      return one_of(random, kBroken);
    case 7:
      return code_points(random, 0x4E00, 0x9FFF);
    case 8:
      return code_points(random, 0x3041, 0x30FF);
    case 9:
      return code_points(random, 0xAC00, 0xD7A3);
    case 10:
      return code_points(random, 0xA0, 0x52F);
    case 11:
      return code_points(random, 0x10000, 0x10FFFF);
    case 12:
      return std::string(1 + below(random, 70), one_of(random, std::string_view(" -=#a0\n\t'")));
    case 13:
      return std::string(13 + below(random, 5), static_cast<char>('a' + below(random, 26)));
    case 14:
      return code_points(random, 0x20, 0x7E);
    default:
      return code_points(random, 0, 0xFFF);  // including NUL
  }
}

/// Returns text composed of vocabulary tokens.
std::string random_tokens(Random& random, const BpeVocabulary& vocabulary) {
  std::string out;
  for (int n = 0; n < 12; ++n) out += token_bytes(one_of(random, vocabulary.tokens));
  return out;
}

struct Encoders {
  BpeVocabulary vocabulary = gpt2_vocabulary();
  std::unique_ptr<Tokenizer> tokenizer = load_gpt2();
  std::unique_ptr<Encoder> encoder = tokenizer->make_encoder();  // caches earlier words
  ReferenceBpe reference{vocabulary, kClasses, 100000};

  void check(const std::string& text) {
    std::vector<std::int32_t> ids = {-1};
    encoder->append(text, ids);
    std::vector<std::int32_t> want = reference.encode(text);
    want.insert(want.begin(), -1);
    CAPTURE(text);
    REQUIRE(ids == want);
    ids.erase(ids.begin());
    REQUIRE(tokenizer->decode(ids) == text);
  }
};

}  // namespace

TEST_CASE("exactness: random text of many kinds, at every offset") {
  Encoders encoders;
  Random random(20);
  for (int round = 0; round < 6000; ++round) {
    std::string text(below(random, 70), 'x');  // shifts the words to any offset within a block
    std::size_t size = text.size() + 1 + below(random, 200);
    while (text.size() < size) text += random_word(random);
    encoders.check(text);
  }
  for (int round = 0; round < 2000; ++round) encoders.check(random_tokens(random, encoders.vocabulary));
  for (int round = 0; round < 2000; ++round) {
    std::string text(below(random, 150), '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    encoders.check(text);
  }
}

TEST_CASE("exactness: every code point of planes with characters between letters, blanks and itself") {
  Encoders encoders;
  std::string text;
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    if (c == 0x40000) c = 0xE0000;  // planes without characters
    for (const char* before : {"a", " ", "\n"}) {
      text += before;
      append_utf8(text, c);
    }
    append_utf8(text, c);
    if (text.size() > 100'000) encoders.check(std::exchange(text, {}));
  }
  encoders.check(text);
}

TEST_CASE("exactness: pre-tokens around every length limit of the cache") {
  Encoders encoders;
  Random random(21);
  for (std::size_t bytes :
       {1u, 2u, 7u, 8u, 9u, 14u, 15u, 16u, 17u, 47u, 48u, 49u, 63u, 64u, 65u, 125u, 126u, 127u, 128u, 129u, 400u}) {
    for (int round = 0; round < 40; ++round) {
      std::string word;
      while (word.size() < bytes) word += one_of(random, std::string_view("etaoinshrdlu"));
      encoders.check(word);
      encoders.check(word + " " + word + "\n" + word);
      std::string wide;
      while (wide.size() + 3 <= bytes)
        append_utf8(wide, round % 2 == 0 ? 0x3041 + below(random, 80) : 0x4E00 + below(random, 3000));
      encoders.check(wide);
    }
  }
}

TEST_CASE("exactness: repeated pre-tokens with more tokens than a cached word holds") {
  Encoders encoders;
  Random random(23);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> words;
    for (int n = 0; n < 8; ++n) {
      std::string word = n % 2 == 0 ? "\n" : " ";
      const std::string_view letters = n % 4 < 2 ? " " : "qzxjvw";
      for (std::size_t bytes = 2 + below(random, 150); word.size() < bytes;) word += one_of(random, letters);
      words.push_back(word + "q");
      words.push_back(word.substr(0, 15) + "q");
    }
    std::string text;
    for (int n = 0; n < 60; ++n) text += one_of(random, words);
    encoders.check(text);
  }
}

TEST_CASE("exactness: the corpora, with three vocabularies") {
  Encoders encoders;
  for (const char* corpus : {"golden/corpora/wikitext2-valid.txt.xz", "golden/corpora/wikitext2-test.txt.xz",
                             "../share/demo/tinyshakespeare.txt.xz"}) {
    std::string text = read_all(corpus);
    encoders.check(text);
    for (const char* folder :
         {"golden/tokenizer/bpe_tinyshakespeare_1000", "golden/tokenizer/bpe_wikitext2-test_4000"}) {
      BpeVocabulary vocabulary = read_vocab_and_merges(cat(folder, "/vocab.json"), cat(folder, "/merges.txt"));
      ReferenceBpe reference(vocabulary, kClasses, 100000);
      BpeModel model(vocabulary, folder);
      std::vector<std::int32_t> ids;
      make_bpe_encoder(model, EncoderMemory::large)->append(text, ids);
      CHECK(ids == reference.encode(text));
    }
  }
}

TEST_CASE("exactness: merges in an order that no trainer produces") {
  // A pair may be merged before the pairs that produce it, and another pair may produce the same token.
  Random random(22);
  for (int round = 0; round < 300; ++round) {
    BpeVocabulary vocabulary;
    for (const std::string& byte : byte_stand_ins()) vocabulary.tokens.push_back(byte);
    auto stand_ins = [](std::string_view bytes) {
      std::string out;
      for (char byte : bytes) out += byte_stand_ins()[static_cast<unsigned char>(byte)];
      return out;
    };
    std::vector<std::string> known = {"a", "b", "\xE4", "\xB8", "\x80"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int n = 0; n < 25; ++n) {
      std::string left = one_of(random, known), right = one_of(random, known);
      const std::pair merge(stand_ins(left), stand_ins(right));
      if (std::count(merges.begin(), merges.end(), merge) > 0) continue;
      merges.push_back(merge);
      if (vocabulary.find(stand_ins(left + right)) < 0) vocabulary.tokens.push_back(stand_ins(left + right));
      known.push_back(left + right);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    for (const auto& [left, right] : merges) vocabulary.merges.push_back({left, right});
    BpeModel model(vocabulary, "random");
    ReferenceBpe reference(vocabulary, kClasses);
    for (int length : {5, 20, 60, 150}) {
      std::string text;
      while (static_cast<int>(text.size()) < length)
        text += one_of(random, std::array{"a", "b", "\xE4\xB8\x80", "\xE4", "\xB8"});
      std::vector<std::int32_t> ids;
      make_bpe_encoder(model, EncoderMemory::small)->append(text, ids);
      CAPTURE(text);
      REQUIRE(ids == reference.encode(text));
    }
  }
}

TEST_CASE("exactness: two megabytes of one character take linear time") {
  // With quadratic time, this would take hours instead of seconds.
  auto tokenizer = load_gpt2();
  for (const char* character : {"a", " ", "\u4E00", "\u3042"}) {
    std::string text;
    while (text.size() < 2'000'000) text += character;
    CAPTURE(character);
    std::vector<std::int32_t> ids = tokenizer->encode(text);
    CHECK(tokenizer->decode(ids) == text);
  }
}
