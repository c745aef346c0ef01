// GPT-2's tokenizer: compared with Hugging Face's and tiktoken's results, and with a plain BPE in this file.
#include "text/tokenizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "base/str.h"
#include "tests/doc_table.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/sha256.h"
#include "tests/text/golden.h"
#include "tests/text/random_text.h"
#include "text/bpe_tokenizer.h"
#include "text/bpe_trainer.h"
#include "text/decompress.h"
#include "text/null_tokenizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_kinds.h"

using namespace mtl;

namespace {

std::string corpus_text(const std::string& file) {
  return read_all(file == "tinyshakespeare.txt" ? "../share/demo/tinyshakespeare.txt.xz"
                                                : cat("golden/corpora/", file, ".xz"));
}

std::vector<std::string> units_of(const std::string& text, const std::string& unit) {
  std::vector<std::string> out;
  if (unit == "document") {
    out.push_back(text);
  } else if (unit == "lines") {
    for (std::string& line : split(text, '\n')) {
      if (!line.empty()) out.push_back(std::move(line));
    }
  } else {
    FAIL("unknown unit ", unit);
  }
  return out;
}

/// Implements BPE by its definition: merges the best pair until none is left.
class PlainBpe {
 public:
  explicit PlainBpe(const BpeVocabulary& vocabulary) {
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id)
      ids_[std::string(vocabulary.tokens[id])] = static_cast<std::int32_t>(id);
    for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
      const Merge merge = vocabulary.merges[rank];
      ranks_[{std::string(merge.left), std::string(merge.right)}] = rank;
    }
  }

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> out;
    for_each_pretoken(text, [&](std::string_view pretoken) {
      std::vector<std::string> symbols;
      for (char byte : pretoken) symbols.push_back(byte_stand_ins()[static_cast<unsigned char>(byte)]);
      while (true) {
        std::size_t best = symbols.size(), best_rank = ranks_.size();
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
          auto found = ranks_.find({symbols[i], symbols[i + 1]});
          if (found != ranks_.end() && found->second < best_rank) best = i, best_rank = found->second;
        }
        if (best == symbols.size()) break;
        symbols[best] += symbols[best + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      }
      for (const std::string& symbol : symbols) out.push_back(ids_.at(symbol));
    });
    return out;
  }

 private:
  std::map<std::string, std::int32_t> ids_;
  std::map<std::pair<std::string, std::string>, std::size_t> ranks_;
};

}  // namespace

TEST_CASE("gpt2: golden cases are encoded and decoded") {
  auto tokenizer = load_gpt2();
  auto encoder = tokenizer->make_encoder();
  CHECK(tokenizer->vocab_size() == 50257);
  CHECK(tokenizer->eod() == 50256);
  for (const Json& item : golden_lines("golden/tokenizer/gpt2_cases.jsonl")) {
    CAPTURE(item.at("name").as_string());
    const std::string& text = item.at("text").as_string();
    std::vector<std::int32_t> ids;
    encoder->append(text, ids);
    CHECK(ids == ids_of(item.at("ids")));
    CHECK(tokenizer->decode(ids) == text);
  }
}

TEST_CASE("gpt2: corpora have the golden ids") {
  auto tokenizer = load_gpt2();
  auto encoder = tokenizer->make_encoder();
  Json golden = Json::read("golden/tokenizer/gpt2_corpora.json");
  for (const Json& item : golden.as_array()) {
    CAPTURE(item.at("file").as_string());
    std::string text = corpus_text(item.at("file").as_string());
    REQUIRE(sha256(text) == item.at("file_sha256").as_string());
    std::vector<std::int32_t> ids, lengths;
    for (const std::string& unit : units_of(text, item.at("unit").as_string())) {
      std::size_t before = ids.size();
      encoder->append(unit, ids);
      lengths.push_back(static_cast<std::int32_t>(ids.size() - before));
    }
    CHECK(static_cast<std::int64_t>(ids.size()) == item.at("tokens").as_int());
    CHECK(sha256(little_endian<std::uint16_t>(ids)) == item.at("ids_u16le_sha256").as_string());
    CHECK(sha256(little_endian<std::int32_t>(lengths)) == item.at("lengths_i32le_sha256").as_string());
  }
}

TEST_CASE("gpt2: every token decodes to its golden bytes; other ids are refused") {
  auto tokenizer = load_gpt2();
  std::string table;
  for (std::int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    std::string bytes = tokenizer->decode({{id}});
    table += little_endian<std::uint32_t>(std::vector<std::size_t>{bytes.size()}) + bytes;
  }
  CHECK(sha256(table) == Json::read("golden/tokenizer/gpt2_token_bytes.json").at("sha256").as_string());
  CHECK_THROWS_AS(tokenizer->decode({{50257}}), Error);
  CHECK_THROWS_AS(tokenizer->decode({{-1}}), Error);
}

TEST_CASE("gpt2: equals a plain BPE, on random Unicode") {
  BpeVocabulary vocabulary = read_vocab_and_merges("../share/gpt2/vocab.json", "../share/gpt2/merges.txt");
  BpeTokenizer tokenizer(vocabulary, "gpt2");
  PlainBpe plain(vocabulary);
  auto small = tokenizer.make_encoder(EncoderMemory::small);  // has few slots, so pre-tokens evict each other
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text = random_text(random);
    CAPTURE(text);
    std::vector<std::int32_t> ids;
    small->append(text, ids);
    REQUIRE(ids == plain.encode(text));
    REQUIRE(tokenizer.decode(ids) == text);
  }
}

TEST_CASE("gpt2: words around every length limit equal a plain BPE") {
  BpeVocabulary vocabulary = read_vocab_and_merges("../share/gpt2/vocab.json", "../share/gpt2/merges.txt");
  BpeTokenizer tokenizer(vocabulary, "gpt2");
  PlainBpe plain(vocabulary);
  std::mt19937 random(2);
  for (std::size_t length : {1, 7, 8, 9, 14, 15, 16, 17, 47, 48, 49, 100, 127, 128, 129, 700}) {
    for (std::uint32_t alphabet : {1u, 2u, 26u}) {
      std::string text;
      while (text.size() < length) text += static_cast<char>('a' + random() % alphabet);
      CAPTURE(text);
      CHECK(tokenizer.encode(text) == plain.encode(text));
    }
  }
  std::string million(1000000, 'a');  // quadratic time would be noticeable
  CHECK(tokenizer.decode(tokenizer.encode(million)) == million);
}

TEST_CASE("gpt2: files saved in transformers' form load again") {
  const test::ScratchFolder folder;
  Json golden = Json::read("golden/tokenizer/hf_saved.json");
  for (const Json& item : golden.as_array()) {
    const std::string& name = item.at("name").as_string();
    CAPTURE(name);
    std::string trained =
        "golden/tokenizer/bpe_" + name.substr(name.find("tiny") == std::string::npos ? 0 : name.find("tiny"));
    std::string source = name == "gpt2" ? "../share/gpt2" : trained;
    BpeVocabulary vocabulary = read_vocab_and_merges(source + "/vocab.json", source + "/merges.txt");
    BpeTokenizer tokenizer(vocabulary, source);
    tokenizer.save(folder.path());
    for (const auto& [file, facts] : item.at("files").as_object()) {
      CHECK(sha256(read_file(folder / file)) == facts.at("sha256").as_string());
    }
    auto found = find_tokenizer(folder.path());
    REQUIRE(found);
    auto loaded = load_tokenizer(*found);
    CHECK(loaded->hash() == tokenizer.hash());
    CHECK(loaded->eod() == tokenizer.eod());
    BpeTokenizer special(vocabulary, source, true);
    for (const Json& example : item.at("encodings").as_array()) {
      CHECK(loaded->encode(example.at("text").as_string()) == ids_of(example.at("ids")));
      CHECK(special.encode(example.at("text").as_string()) == ids_of(example.at("ids")));
    }
    fs::remove(folder / "tokenizer.json");
    CHECK(load_tokenizer(find_tokenizer(folder.path()).value())->hash() == tokenizer.hash());
  }
  CHECK_FALSE(find_tokenizer("golden/indexed"));
}

TEST_CASE("special strings: the leftmost match wins, then the longest") {
  BpeVocabulary vocabulary = read_vocab_and_merges("../share/gpt2/vocab.json", "../share/gpt2/merges.txt");
  for (const char* token : {"<a>", "<a>b", "<never>"}) {
    vocabulary.special.push_back(static_cast<std::int32_t>(vocabulary.tokens.size()));
    vocabulary.tokens.push_back(token);
  }
  BpeTokenizer tokenizer(vocabulary, "gpt2", true);
  CHECK(tokenizer.encode("<a>b<a> b<|endoftext|><|endoftext|>x") ==
        std::vector<std::int32_t>{50258, 50257, 275, 50256, 50256, 87});
  CHECK(tokenizer.encode("") == std::vector<std::int32_t>{});
  CHECK(tokenizer.decode({{50258, 50257}}) == "<a>b<a>");
}

TEST_CASE("vocabulary files: broken ones are refused") {
  const test::ScratchFolder folder;
  const std::string merges = folder / "merges.txt";
  for (const char* bad : {"a b c\n", "ab\n", " b\n", "a \n", "never seen\n"}) {
    write_file_atomic(merges, cat("#version: 0.2\n", bad));
    CAPTURE(bad);
    CHECK_THROWS_AS(BpeTokenizer(read_vocab_and_merges("../share/gpt2/vocab.json", merges), merges), Error);
  }
  write_file_atomic(merges, "{\"a\": 0}");
  CHECK_THROWS_WITH_AS(BpeTokenizer(read_vocab_and_merges(merges, "../share/gpt2/merges.txt"), merges),
                       doctest::Contains("not a byte-level vocabulary"), Error);
}

TEST_CASE("vocabulary files: incomplete merges are refused; tokens that no merge can make are not") {
  const std::string vocab = read_file("../share/gpt2/vocab.json"), merges = read_file("../share/gpt2/merges.txt");
  const auto load = [](const std::string& vocab_text, std::string_view merges_text) {
    BpeTokenizer(parse_vocab_and_merges({vocab_text, "v.json"}, {merges_text, "m.txt"}), "v.json");
  };
  const auto refusal = [&](std::string_view merges_text) {
    return test::error_of([&] { load(vocab, merges_text); }, Exit::bad_data);
  };
  CHECK(refusal("") ==
        "v.json: no merge makes 49,983 of its 50,257 tokens, such as \"\u0120t\" (there are 0 merges); the list of "
        "merges is incomplete or belongs to another vocabulary: copy it again in full");
  const std::size_t last_line = merges.rfind('\n', merges.size() - 2) + 1,
                    middle = merges.find('\n', merges.size() / 2);
  CHECK(test::contains(refusal(std::string_view(merges).substr(0, last_line)), "no merge makes 1 of"));
  CHECK(test::contains(refusal(std::string_view(merges).substr(0, middle)), "of its 50,257 tokens"));

  // Special and unused tokens, and one that is spelled without stand-ins.
  std::string padded = vocab.substr(0, vocab.rfind('}'));
  int id = 50257;
  for (const char* token : {"<s>", "<unk>", "<|extra_0|>", "[unused1]", "madeupword0000", "\u4E2D\u6587", "\u4E2D"})
    append_to(padded, ", \"", token, "\": ", id++);
  load(padded + "}", merges);
  // mtl-vocab's special tokens come before the bytes.
  BpeTraining training;
  training.vocab_size = 270;
  training.special_tokens = {"<|endoftext|>", "PAD"};
  WordCounts counts;
  counts.add_text("the theme of the other thesis");
  const BpeVocabulary trained = train_bpe(counts, training);
  REQUIRE(trained.merges.size() > 0);
  load(vocab_json_text(trained), merges_text(trained));
}

TEST_CASE("vocabulary files: bytes that no UTF-8 text has need no token, as in GPT-NeoX's") {
  const Json gpt2 = Json::read("../share/gpt2/vocab.json");
  const std::string merges = read_file("../share/gpt2/merges.txt");
  const auto without = [&](std::initializer_list<int> bytes) {
    std::string vocab;
    std::int32_t id = 0;
    for (const auto& [token, number] : gpt2.as_object())
      if (std::ranges::none_of(bytes, [&](int byte) { return byte_stand_ins()[byte] == token; }))
        append_to(vocab, vocab.empty() ? "{" : ", ", Json(token).dump(), ": ", id++);
    return BpeTokenizer(parse_vocab_and_merges({vocab + "}", "v.json"}, {merges, "m.txt"}), "v.json");
  };
  const auto whole = load_gpt2();
  const BpeTokenizer neox = without({0xC0, 0xC1, 0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF});
  CHECK(neox.vocab_size() == whole->vocab_size() - 13);
  for (const char* text : {"Where? \"Here\"", "\u00C0\u00E9\u4E2D\u6587", "\U0001F600 \U0010FFFF"}) {
    CAPTURE(text);
    const std::vector<std::int32_t> ids = neox.encode(text), expected = whole->encode(text);
    REQUIRE(ids.size() == expected.size());
    for (std::size_t i = 0; i < ids.size(); ++i) CHECK(neox.decode({{ids[i]}}) == whole->decode({{expected[i]}}));
  }
  CHECK_THROWS_WITH_AS(without({0xF4}), doctest::Contains("which stands for byte 244"), Error);
}

TEST_CASE("vocabulary files: one in another encoding is named, with the command that converts it") {
  const auto utf16 = [](std::string_view text) {
    std::string out = "\xFF\xFE";
    for (const char c : text) out += {c, '\0'};
    return out;
  };
  const std::string vocab = "{\"a\": 0, \"b\": 1, \"ab\": 2}", merges = "#version: 0.2\na b\n";
  const auto refusal = [](const std::string& vocab_text, const std::string& merges_text) {
    return test::error_of(
        [&] {
          parse_vocab_and_merges({vocab_text, "v.json"}, {merges_text, "m.txt"});
        },
        Exit::bad_data);
  };
  const auto check = [](const std::string& message, const char* file, const char* remedy) {
    CHECK(starts_with(message, file));
    CHECK(test::contains(message, remedy));
  };
  check(refusal("\xEF\xBB\xBF" + vocab, merges), "v.json", "tail -c +4");
  check(refusal(utf16(vocab), merges), "v.json", "iconv -f UTF-16 -t UTF-8");
  check(refusal(utf16(vocab).substr(2), merges), "v.json", "iconv -f UTF-16LE");
  check(refusal(vocab, "\xEF\xBB\xBF" + merges), "m.txt", "tail -c +4");
  check(refusal(vocab,
                "\xEF\xBB\xBF"
                "a b\n"),
        "m.txt", "tail -c +4");
  check(refusal(vocab, utf16(merges)), "m.txt", "iconv -f UTF-16 -t UTF-8");
}

TEST_CASE("vocab.json: an entry that is not a token and its id is refused by name") {
  std::string tokens = "{";
  for (int byte = 0; byte < 256; ++byte) {
    append_json_string(tokens, byte_stand_ins()[static_cast<std::size_t>(byte)]);
    append_to(tokens, ": ", byte, ", ");
  }
  auto refusal_of = [](const std::string& vocab) -> std::string {
    try {
      BpeModel(parse_vocab_and_merges({vocab, "v.json"}, {"a b\n", "m.txt"}), "v.json");
    } catch (const Error& error) {
      CHECK(error.code() == Exit::bad_data);
      return error.what();
    }
    return "";
  };
  // The parser uses a different code path near the end of a file.
  auto refusal = [&](std::string_view last_entry) {
    const std::string near_the_end = refusal_of(cat(tokens, last_entry, "}"));
    CHECK(refusal_of(cat(tokens, last_entry, "}", std::string(2000, ' '))) == near_the_end);
    return near_the_end;
  };
  CHECK(refusal("\"ab\": 256") == "");
  CHECK(refusal("\"ab\": 300, \"\\u00E9\": 256") == "v.json: token \"\u00E9\" appears twice");
  CHECK(refusal("\"ab\": 256, \"ab\": 256") == "v.json: token \"ab\" appears twice");
  CHECK(refusal("\"ab\": 256, \"ab\": 257") == "v.json: token \"ab\" appears twice");
  CHECK(refusal("\"ab\": 97") == "v.json: id 97 belongs to both \"" + byte_stand_ins()[97] + "\" and \"ab\"");
  for (const char* id :
       {"1.0", "1e3", "true", "\"256\"", "[256]", "{}", "null", "NaN", "-Infinity", "99999999999999999999"})
    CHECK(refusal(cat("\"ab\": ", id)) == "v.json: the id of token \"ab\" is not a whole number");
  for (const char* id : {"-1", "4194304", "9223372036854775807"})
    CHECK(refusal(cat("\"ab\": ", id)) == cat("v.json: token \"ab\" has id ", id, ", which is out of range"));
  CHECK(refusal("\"ab\": 256, ") == cat("v.json: byte ", tokens.size() + 12, ": a value is missing after ','"));
  CHECK(refusal("\"ab\": x") == cat("v.json: byte ", tokens.size() + 7, ": expected a value"));
  CHECK(refusal("\"\\uD800\": 256") == "v.json: the token with id 256 is not Unicode text");
}

TEST_CASE("tokenizer files: a path that cannot be opened is named, and is not an internal error") {
  for (const char* type : {"HuggingFaceTokenizer", "SentencePieceTokenizer", "TikTokenizer"}) {
    TokenizerOptions options;
    options.type = type;
    options.tokenizer_model = std::string(300, 'x');
    try {
      load_tokenizer(options);
      FAIL("loaded");
    } catch (const Error& error) {
      CHECK(error.code() == Exit::io);
      CHECK(starts_with(error.what(), options.tokenizer_model));
    }
  }
}

TEST_CASE("NullTokenizer: parses each id like Python's int(), and refuses ids out of range") {
  NullTokenizer tokenizer(70000, {});
  CHECK(tokenizer.encode("007 +5 -0 1_000 69999") == std::vector<std::int32_t>{7, 5, 0, 1000, 69999});
  CHECK(tokenizer.encode("\u0663\u0664 \uFF11\uFF12 \u30005 \U0001D7D9\U0001D7EB \u09E7\u09E6") ==
        std::vector<std::int32_t>{34, 12, 5, 19, 10});
  for (const char* outside : {"-1", "-\u09E7\u09E6", "70000", "99999999999"}) {
    CAPTURE(outside);
    CHECK_THROWS_WITH_AS(tokenizer.encode(outside), doctest::Contains("ids 0 to 69999"), Error);
  }
  CHECK_THROWS_AS(tokenizer.decode({{70000}}), Error);
  CHECK_THROWS_AS(tokenizer.decode({{-1}}), Error);
  CHECK_THROWS_AS(tokenizer.encode("\u00B2"), Error);  // numeric, but not a digit
  CHECK(tokenizer.eod() == 69999);
  CHECK(tokenizer.decode({{1, 2, 3}}) == "1 2 3");
  for (const char* bad : {"", " ", "1  2", "1 2 ", "a", "1.0", "0x1", "99999999999"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(tokenizer.encode(bad), Error);
  }
  std::string many = "a";  // a message quotes the first 80 bytes, in complete characters
  while (many.size() < 5000) many += "\xC3\xA9";
  CHECK_THROWS_WITH_AS(tokenizer.encode("1 " + many),
                       cat("\"", many.substr(0, 79), "...\" is not a token id; for NullTokenizer, write whole numbers ",
                           "separated by single spaces")
                           .c_str(),
                       Error);
  CHECK(NullTokenizer(100, 100).vocab_size() == 101);
  CHECK_THROWS_AS(NullTokenizer(0, {}), Error);
}

TEST_CASE("tokenizer kinds: docs/data.md lists all of them, and errors name what is missing or unknown") {
  std::vector<std::string> documented;
  for (const auto& row : test::doc_table("../docs/data.md", "| `--tokenizer-type` |"))
    for (const std::string& type : test::code_words(row.at(0))) documented.push_back(type);
  std::vector<std::string> types = texts_of(tokenizer_kinds(), &TokenizerKind::type);
  const auto message = [](const char* type) {
    TokenizerOptions options;
    options.type = type;
    return test::error_of([&] { load_tokenizer(options); });
  };
  CHECK(message("") == "--tokenizer-type GPT2BPETokenizer requires --vocab-file and --merge-file");
  CHECK(message("Llama2Tokenizer") == "--tokenizer-type Llama2Tokenizer requires --tokenizer-model");
  CHECK(message("NullTokenizer") == "--tokenizer-type NullTokenizer requires --vocab-size");
  CHECK(message("X") ==
        "--tokenizer-type X is not supported; use GPT2BPETokenizer, HuggingFaceTokenizer, TikTokenizer, "
        "SentencePieceTokenizer, GPTSentencePieceTokenizer, Llama2Tokenizer or NullTokenizer");
  std::ranges::sort(types);
  std::ranges::sort(documented);
  CHECK(documented == types);
}
