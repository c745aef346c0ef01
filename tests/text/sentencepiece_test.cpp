// SentencePiece models: compared with sentencepiece's results, and with the plain algorithms in sentencepiece_plain.h.
#include "text/sentencepiece_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "base/error.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/text/golden.h"
#include "tests/text/random_text.h"
#include "tests/text/sentencepiece_plain.h"
#include "tests/text/sentencepiece_wire.h"
#include "text/decompress.h"
#include "text/sentencepiece_tokenizer.h"

using namespace mtl;

namespace {

using Kind = SentencePiece::Kind;
using Ids = std::vector<std::int32_t>;

std::string golden_file(const std::string& name) { return "golden/tokenizer/sentencepiece_" + name; }

std::unique_ptr<Tokenizer> load_golden(const std::string& name, const std::string& type = "GPTSentencePieceTokenizer",
                                       bool legacy = false, std::int64_t extra_ids = 0) {
  TokenizerOptions options;
  options.type = type;
  options.tokenizer_model = golden_file(name + ".model");
  options.legacy_tokenizer = legacy;
  options.vocab_extra_ids = extra_ids;
  return load_tokenizer(options);
}

SentencePieceTokenizer make_tokenizer(const SentencePieceModel& model) {
  return SentencePieceTokenizer(sentencepiece_file(model), "test.model", {});
}

/// Returns a unigram model without normalization rules. Its pieces are unknown, <s>, </s> and then `pieces`.
SentencePieceModel small_model(const std::vector<SentencePiece>& pieces) {
  SentencePieceModel model;
  model.pieces = {{"<unk>", 0, Kind::unknown}, {"<s>", 0, Kind::control}, {"</s>", 0, Kind::control}};
  model.pieces.insert(model.pieces.end(), pieces.begin(), pieces.end());
  return model;
}

/// Returns random text that mixes scripts, blanks, composable accents, compatibility forms and rare Unicode planes.
std::string random_symbols(std::mt19937& random) {
  constexpr std::string_view kParts[] = {
      "'s",           " ",   "  ",   "\n",        "\t",           "\xC2\xA0", "\xE3\x80\x80", "the", " of", "ing",
      "\xE2\x96\x81", "<s>", "</s>", "e\xCC\x81", "\xEF\xB7\xBA", "aaaa",     "----"};
  constexpr CodeRange kRanges[] = {{0, 0x7F},        {'a', 'z'},       {'0', '9'},         {0x80, 0x24F},
                                   {0x300, 0x36F},   {0x5D0, 0x6FF},   {0x900, 0x97F},     {0x2000, 0x206F},
                                   {0x4E00, 0x4EFF}, {0xFF00, 0xFFEF}, {0x1F300, 0x1F9FF}, {0xE000, 0x10FFFF}};
  return random_text(random, 80, kParts, kRanges);
}

/// Loads a model file with these contents; returns the error, or "".
std::string message_of(const std::string& file) {
  return test::error_of([&] { SentencePieceTokenizer(file, "test.model", {}); }, Exit::bad_data);
}

}  // namespace

TEST_CASE("sentencepiece: golden cases are encoded and decoded") {
  for (const std::string name : {"unigram", "bpe"}) {
    auto tokenizer = load_golden(name);
    auto encoder = tokenizer->make_encoder();
    CHECK(tokenizer->vocab_size() == 2000);
    CHECK(tokenizer->eod() == 2);
    for (const Json& item : golden_lines(golden_file(name + "_cases.jsonl"))) {
      CAPTURE(item.at("name").as_string());
      Ids ids;
      encoder->append(item.at("text").as_string(), ids);
      CHECK(ids == ids_of(item.at("ids")));
      CHECK(tokenizer->decode(ids) == item.at("decoded").as_string());
    }
  }
}

TEST_CASE("sentencepiece: random text is encoded as defined, and decodes to its normalized form") {
  for (const std::string name : {"unigram", "bpe"}) {
    auto tokenizer = load_golden(name);
    auto encoder = tokenizer->make_encoder();
    const SentencePieceModel model = parse_sentencepiece_model(read_file(golden_file(name + ".model")), name);
    const PlainSentencePiece plain(model);
    std::mt19937 random(1);
    for (int i = 0; i < 3000; ++i) {
      std::string text = random_symbols(random);
      CAPTURE(text);
      Ids ids;
      encoder->append(text, ids);
      REQUIRE(ids == plain.encode(text));
      // Encoding loses only what normalization changes. Decoding turns U+2581 into a blank and drops the dummy prefix's
      // blank.
      std::string shown;
      for (const std::string& character : characters_of(plain.normalized(text)))
        shown += character == kSpaceText ? " " : character;
      REQUIRE(tokenizer->decode(ids) == (shown.empty() ? "" : shown.substr(1)));
    }
  }
}

TEST_CASE("sentencepiece: a long text whose sums exceed the precision of float32 is encoded as defined") {
  const std::string text = read_all("../share/demo/tinyshakespeare.txt.xz").substr(0, 200000);
  const SentencePieceModel model = parse_sentencepiece_model(read_file(golden_file("unigram.model")), "unigram");
  Ids ids;
  auto tokenizer = load_golden("unigram");
  auto encoder = tokenizer->make_encoder();
  encoder->append(text.substr(0, 5000), ids);  // caches words while the score sum is different
  ids.clear();
  encoder->append(text, ids);
  CHECK(ids == PlainSentencePiece(model).encode(text));
  CHECK(tokenizer->encode(text) == ids);
}

TEST_CASE("sentencepiece: invalid UTF-8 is encoded as U+FFFD, and any bytes can be encoded") {
  std::mt19937 random(2);
  for (const std::string name : {"unigram", "bpe"}) {
    auto tokenizer = load_golden(name);
    Ids ids = {name == "unigram" ? 271 : 688};
    for (int i = 0; i < 3; ++i) ids.insert(ids.end(), {3 + 0xEF, 3 + 0xBF, 3 + 0xBD});
    if (name == "unigram") ids.insert(ids.begin() + 1, 337);
    CHECK(tokenizer->encode("ab\xFF\xE3\x81") == ids);
    for (int i = 0; i < 2000; ++i) {
      std::string bytes(random() % 30, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      tokenizer->decode(tokenizer->encode(bytes));
    }
  }
}

TEST_CASE(
    "sentencepiece: byte pieces decode to characters or U+FFFD, control pieces to nothing; invalid ids are refused") {
  auto tokenizer = load_golden("unigram");
  auto byte = [](unsigned value) { return static_cast<std::int32_t>(3 + value); };
  CHECK(tokenizer->decode({{byte(0xE4), byte(0xB8), byte(0xAD)}}) == "\xE4\xB8\xAD");
  CHECK(tokenizer->decode({{byte(0xE4), byte(0xB8), byte('a')}}) ==
        "\xEF\xBF\xBD\xEF\xBF\xBD"
        "a");
  CHECK(tokenizer->decode({{1, 2}}).empty());
  CHECK(tokenizer->decode({{0}}) == " \xE2\x81\x87 ");
  CHECK_THROWS_AS(tokenizer->decode({{2000}}), Error);
  CHECK_THROWS_AS(tokenizer->decode({{-1}}), Error);
}

TEST_CASE("sentencepiece: encoding takes linear time") {
  for (const std::string name : {"unigram", "bpe"}) {
    auto tokenizer = load_golden(name);
    auto encoder = tokenizer->make_encoder(EncoderMemory::small);
    for (const std::string unit : {"a", " ", "\xE4\xB8\xAD", "ab", "x "}) {
      auto seconds = [&](std::size_t bytes) {
        std::string text;
        while (text.size() < bytes) text += unit;
        Ids ids;
        auto start = std::chrono::steady_clock::now();
        encoder->append(text, ids);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      };
      CAPTURE(unit);
      double tenth = std::min(seconds(50000), seconds(50000));
      CHECK(seconds(500000) < 60 * tenth + 0.5);
    }
  }
}

TEST_CASE("sentencepiece: a run of unknown characters without byte fallback is one <unk>") {
  auto tokenizer = make_tokenizer(small_model({{"\xE2\x96\x81", -2, Kind::normal}, {"a", -1, Kind::normal}}));
  CHECK(tokenizer.encode("axyz a") == Ids{3, 4, 0, 3, 4});
  CHECK(tokenizer.encode("x") == Ids{3, 0});
  CHECK(tokenizer.encode("\xE4\xB8\xAD\xE4\xB8\xAD") == Ids{3, 0});
  std::vector<std::int32_t> ids = tokenizer.encode("x");
  tokenizer.make_encoder(EncoderMemory::small)->append("", ids);
  CHECK(ids.size() == 2);
}

TEST_CASE("sentencepiece: user-defined pieces match first, the longest one") {
  for (auto algorithm : {SentencePieceModel::Algorithm::unigram, SentencePieceModel::Algorithm::bpe}) {
    SentencePieceModel model = small_model({{"\xE2\x96\x81", -2, Kind::normal},
                                            {"a", -1, Kind::normal},
                                            {"b", -1, Kind::normal},
                                            {"c", -1, Kind::normal},
                                            {"bc", -0.5, Kind::normal},
                                            {"ab", 0, Kind::user_defined},
                                            {"aba", 0, Kind::user_defined},
                                            {"A ", 0, Kind::user_defined}});
    model.algorithm = algorithm;
    model.normalizer.remove_extra_whitespaces = false;
    auto tokenizer = make_tokenizer(model);
    CHECK(tokenizer.encode("abc") == Ids{3, 8, 6});
    const bool is_bpe = algorithm == SentencePieceModel::Algorithm::bpe;
    CHECK(tokenizer.encode("abab") == (is_bpe ? Ids{3, 9, 5} : Ids{3, 8, 8}));  // the longest first, or the best sum
    CHECK(tokenizer.encode("bc") == Ids{3, 7});
    CHECK(tokenizer.decode({{3, 8, 6}}) == "abc");
  }
}

TEST_CASE("sentencepiece: unused pieces are split, or unknown") {
  SentencePieceModel model = small_model({{"a", -1, Kind::normal},
                                          {"b", -2, Kind::normal},
                                          {"c", -3, Kind::unused},
                                          {"ab", -4, Kind::unused},
                                          {"abb", -5, Kind::normal}});
  model.normalizer.add_dummy_prefix = false;
  CHECK(make_tokenizer(model).encode("ab") == Ids{3, 4});
  CHECK(make_tokenizer(model).encode("abb") == Ids{7});
  CHECK(make_tokenizer(model).encode("ca") == Ids{0, 3});
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  CHECK(make_tokenizer(model).encode("ab") == Ids{3, 4});
  CHECK(make_tokenizer(model).encode("abb") == Ids{7});  // merged through the unused piece
  CHECK(make_tokenizer(model).encode("ca") == Ids{0, 3});
}

TEST_CASE("sentencepiece: every whitespace setting applies") {
  const std::string blank(kSpaceText);
  SentencePieceModel model = small_model({{blank, -2, Kind::normal}, {"a", -1, Kind::normal}, {" ", -3, Kind::normal}});
  auto encode = [&](std::string_view text) { return make_tokenizer(model).encode(text); };
  CHECK(encode("  a  a ") == Ids{3, 4, 3, 4});
  CHECK(encode("   ").empty());
  model.whitespace_as_suffix = true;
  CHECK(encode("  a  a ") == Ids{4, 3, 4, 3});
  model.whitespace_as_suffix = false;
  model.normalizer.remove_extra_whitespaces = false;
  CHECK(encode(" a  a ") == Ids{3, 3, 4, 3, 3, 4, 3});
  CHECK(make_tokenizer(model).decode(encode(" a  a ")) == " a  a ");
  model.normalizer.add_dummy_prefix = false;
  CHECK(encode("a a") == Ids{4, 3, 4});
  model.normalizer.escape_whitespaces = false;
  CHECK(encode("a a") == Ids{4, 5, 4});
}

TEST_CASE("sentencepiece: a denormalizer applies to decoded text") {
  SentencePieceModel model = small_model({{"\xE2\x96\x81", -2, Kind::normal}, {"\xEF\xBC\xA1", -1, Kind::normal}});
  model.denormalizer = {
      .charsmap = parse_sentencepiece_model(read_file(golden_file("unigram.model")), "unigram").normalizer.charsmap,
      .add_dummy_prefix = false,
      .remove_extra_whitespaces = false,
      .escape_whitespaces = false};
  CHECK(make_tokenizer(model).decode({{3, 4, 3, 4}}) == "A A");
}

TEST_CASE("sentencepiece: all types encode alike, except two with legacy, as in Megatron before 2026") {
  auto plain = load_golden("bpe");
  CHECK(plain->type() == "GPTSentencePieceTokenizer");
  CHECK(load_golden("bpe", "Llama2Tokenizer")->encode("Hello") == plain->encode("Hello"));
  CHECK(load_golden("bpe", "Llama2Tokenizer")->hash() == plain->hash());
  CHECK(load_golden("unigram")->hash() != plain->hash());

  auto llama = load_golden("bpe", "Llama2Tokenizer", true);
  Ids expected = plain->encode("Hello");
  expected.insert(expected.begin(), 1);
  CHECK(llama->encode("Hello") == expected);
  CHECK(llama->eod() == 2);
  CHECK(llama->hash() != plain->hash());

  auto with_specials = load_golden("bpe", "SentencePieceTokenizer", true, 2);
  CHECK(with_specials->vocab_size() == 2007);  // <CLS> <SEP> <EOD> <MASK> <PAD>, two extra ids; <s> and </s> exist
  CHECK(with_specials->eod() == 2002);
  auto concatenated = [&](std::initializer_list<Ids> parts) {
    Ids out;
    for (const Ids& part : parts) out.insert(out.end(), part.begin(), part.end());
    return out;
  };
  CHECK(with_specials->encode("a<EOD>b </s><extra_id_1>") ==
        concatenated({plain->encode("a"), {2002}, plain->encode("b "), {2, 2006}}));
  CHECK(with_specials->decode({{2002, 2}}) == " <EOD>  </s> ");
}

TEST_CASE("sentencepiece: a saved tokenizer loads unchanged") {
  const test::ScratchFolder folder;
  for (bool legacy : {false, true}) {
    auto tokenizer = load_golden("bpe", "SentencePieceTokenizer", legacy, legacy ? 3 : 0);
    tokenizer->save(folder.path());
    auto found = find_tokenizer(folder.path());
    REQUIRE(found);
    CHECK(load_tokenizer(*found)->hash() == tokenizer->hash());
    CHECK(load_tokenizer(*found)->type() == "SentencePieceTokenizer");
  }
  fs::remove(folder / "tokenizer_config.json");
  CHECK(load_tokenizer(*find_tokenizer(folder.path()))->hash() == load_golden("bpe")->hash());
}

TEST_CASE("sentencepiece: unsupported models are refused by name") {
  auto with = [](SentencePiece piece) { return sentencepiece_file(small_model({{"a", 0, Kind::normal}, piece})); };
  auto refuses = [](const std::string& file, const std::string& reason) {
    CAPTURE(reason);
    const std::string message = message_of(file);
    CAPTURE(message);
    CHECK(message.starts_with("test.model"));
    CHECK(message.find(reason) != std::string::npos);
    CHECK(message.find("; ") != std::string::npos);  // and what to do
  };
  CHECK(message_of(with({"b", 0, Kind::normal})) == "");
  refuses(with({"", 0, Kind::normal}), "piece 4 is empty");
  refuses(with({"a", 0, Kind::normal}), "piece 4 (a) appears twice");
  refuses(with({"b", 0, Kind::unknown}), "pieces 0 and 4 are both the unknown piece");
  refuses(with({"b", 0, static_cast<Kind>(7)}), "piece 4 has the unknown type 7");
  refuses(with({"\xFF", 0, Kind::normal}), "piece 4 is not UTF-8");
  refuses(with({"b", NAN, Kind::normal}), "piece 4 (b) has a score");
  refuses(with({std::string("b\0", 2), 0, Kind::normal}), "piece 4 contains U+0000");
  refuses(with({"<0x41>", 0, Kind::byte}), "piece 4 (<0x41>) is a byte, but the model has no byte_fallback");
  SentencePieceModel model = small_model({{"a", 0, Kind::normal}});
  model.byte_fallback = true;
  refuses(sentencepiece_file(model), "the model has byte_fallback, but no piece for byte 0");
  model.byte_fallback = false;
  model.algorithm = SentencePieceModel::Algorithm::word;
  refuses(sentencepiece_file(model), "a SentencePiece model of type word");
  model.algorithm = SentencePieceModel::Algorithm::character;
  refuses(sentencepiece_file(model), "a SentencePiece model of type char");
  model = small_model({{"a", 0, Kind::normal}});
  model.normalizer.charsmap = "abc";
  refuses(sentencepiece_file(model), "damaged normalization rules: they have only 3 bytes");
  model.normalizer.charsmap = std::string("\xFF\xFF\xFF\0abcdefgh", 12);
  refuses(sentencepiece_file(model), "damaged normalization rules: their trie has 16777215 bytes");
  model.pieces.erase(model.pieces.begin());
  refuses(sentencepiece_file(model), "is not a SentencePiece model, because it has no unknown piece");
  refuses("", "not a SentencePiece model");
  refuses("{\"version\": \"1.0\"}", "not a SentencePiece model");
  const std::string file = read_file(golden_file("bpe.model"));
  for (std::size_t size = 0; size < file.size(); size += 997) CHECK(message_of(file.substr(0, size)) != "");
  refuses(std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 12), "not a SentencePiece model");
  SentencePieceModel without_end = small_model({{"a", 0, Kind::normal}});
  without_end.pieces.erase(without_end.pieces.begin() + 2);
  CHECK_THROWS_AS(make_tokenizer(without_end).eod(), Error);
}
