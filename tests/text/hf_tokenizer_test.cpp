// tokenizer.json for byte-level BPE, compared with Hugging Face's results.
#include "text/hf_tokenizer.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/text/golden.h"
#include "tests/text/random_text.h"

using namespace mtl;

namespace {

const std::string kLlama3 = "golden/tokenizer/llama3_style_tokenizer.json";

/// Returns a file's contents with the first `from` replaced by `to`.
std::string changed(const std::string& file, const std::string& from, const std::string& to) {
  std::string text = read_file(file);
  std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Loads a tokenizer.json with these contents; returns the error, or "accepted".
std::string refusal(const std::string& text) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "tokenizer.json", text);
  try {
    HfTokenizer tokenizer(folder / "tokenizer.json", false);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_data);
    CHECK(starts_with(error.what(), folder.path()));
    return error.what();
  }
  return "accepted";
}

void check_refusal(const std::string& file, const std::string& from, const std::string& to, const std::string& reason) {
  CAPTURE(to);
  std::string message = refusal(changed(file, from, to));
  CAPTURE(message);
  CHECK(message.find(reason) != std::string::npos);
}

}  // namespace

TEST_CASE("tokenizer.json: golden cases in the style of Llama 3 are encoded and decoded") {
  HfTokenizer tokenizer(kLlama3, false);
  auto encoder = tokenizer.make_encoder(EncoderMemory::small);
  CHECK(tokenizer.vocab_size() == 2000);
  CHECK(tokenizer.eod() == 1998);
  CHECK(tokenizer.type() == "HuggingFaceTokenizer");
  HfTokenizer with_special(kLlama3, true);
  CHECK(with_special.hash() != tokenizer.hash());
  for (const Json& item : golden_lines("golden/tokenizer/llama3_style_cases.jsonl")) {
    CAPTURE(item.at("name").as_string());
    const std::string& text = item.at("text").as_string();
    std::vector<std::int32_t> ids, expected = ids_of(item.at("ids"));
    encoder->append(text, ids);
    CHECK(ids == expected);
    CHECK(tokenizer.decode(ids) == text);
    expected.insert(expected.begin(), 1997);
    CHECK(with_special.encode(text) == expected);
  }
}

TEST_CASE("tokenizer.json: decode(encode(x)) is x on random Unicode") {
  std::mt19937 random(5);
  HfTokenizer tokenizer(kLlama3, false);
  auto encoder = tokenizer.make_encoder(EncoderMemory::small);
  for (int round = 0; round < 3000; ++round) {
    std::string text = random_text(random);
    if (round % 7 == 0) text += "<|reserved|>\xFF";
    std::vector<std::int32_t> ids;
    encoder->append(text, ids);
    REQUIRE(tokenizer.decode(ids) == text);
  }
}

TEST_CASE("tokenizer.json: missing merges are refused, with ignore_merges only if all are missing") {
  Json root = Json::read(kLlama3);
  const Json::Array merges = root.at("model").at("merges").as_array();
  const auto with = [&](bool ignore_merges, std::size_t count) {
    Json model = root.at("model");
    model.set("ignore_merges", ignore_merges);
    model.set("merges", Json::Array(merges.begin(), merges.begin() + static_cast<std::ptrdiff_t>(count)));
    root.set("model", std::move(model));
    return refusal(root.dump());
  };
  CHECK(with(true, merges.size() - 1) == "accepted");
  CHECK(test::contains(with(false, merges.size() - 1), "no merge makes 1 of its 1,997 tokens"));
  for (const bool ignore_merges : {true, false})
    CHECK(test::contains(with(ignore_merges, 0), "of its 1,997 tokens, such as"));
}

TEST_CASE("tokenizer.json: two megabytes of one character take linear time") {
  HfTokenizer tokenizer(kLlama3, false);
  for (const char* unit : {"a", " ", "\xE4\xB8\xAD"}) {
    std::string text;
    while (text.size() < 2'000'000) text += unit;
    CHECK((tokenizer.decode(tokenizer.encode(text)) == text));
  }
}

TEST_CASE("tokenizer.json: the files next to it choose the end-of-document and padding tokens, and are saved with it") {
  const test::ScratchFolder folder;
  std::string json = read_file(kLlama3);
  auto write = [&](const std::string& name, const std::string& text) { write_file_atomic(folder / name, text); };
  auto load = [&] { return HfTokenizer(folder / "tokenizer.json", false); };
  write("tokenizer.json", json);
  CHECK(load().eod() == 1998);
  write("special_tokens_map.json", R"({"eos_token": {"content": "<|reserved|>", "lstrip": false}})");
  CHECK(load().eod() == 1999);
  write("tokenizer_config.json", R"({"eos_token": null, "sep_token": "<|begin_of_text|>"})");
  CHECK(load().eod() == 1999);  // special_tokens_map.json takes precedence
  fs::remove(folder / "special_tokens_map.json");
  CHECK(load().eod() == 1997);
  write("tokenizer_config.json", R"({"eos_token": "the"})");  // a model token becomes an added token
  CHECK(load().encode("the") == std::vector<std::int32_t>{load().eod()});
  CHECK(load().pad() == -1);
  write("tokenizer_config.json", R"({"eos_token": "<|end_of_text|>", "pad_token": "<|begin_of_text|>"})");
  CHECK(load().pad() == 1997);
  write("tokenizer_config.json", R"({"eos_token": "<|end_of_text|>", "pad_token": "<|end_of_text|>"})");
  CHECK(load().pad() == -1);  // padding would look like the end of a document
  write("tokenizer_config.json", R"({"eos_token": "<eot>"})");
  CHECK_THROWS_WITH_AS(load(), doctest::Contains("<eot>"), Error);
  write("tokenizer_config.json", R"({"add_prefix_space": true})");
  CHECK_THROWS_WITH_AS(load(), doctest::Contains("add_prefix_space"), Error);
  write("tokenizer_config.json", R"({"eos_token": "<|reserved|>"})");

  // save() copies these settings.
  fs::create_directories(folder / "saved");
  load().save(folder / "saved");
  auto found = find_tokenizer(folder / "saved");
  REQUIRE(found);
  CHECK(read_file(folder / "saved/tokenizer.json") == json);
  CHECK(load_tokenizer(*found)->hash() == load().hash());
  CHECK(load_tokenizer(*found)->eod() == 1999);

  fs::remove(folder / "tokenizer_config.json");
  fs::remove(folder / "special_tokens_map.json");
  write("tokenizer.json", changed(kLlama3, "<|end_of_text|>", "<|fin|>"));
  CHECK_THROWS_WITH_AS(load().eod(), doctest::Contains("eos_token"), Error);
}

TEST_CASE("tokenizer.json: added tokens are numbered as by Hugging Face's libraries, whatever the file says") {
  const std::string gpt2 = "golden/tokenizer/hf_saved_tinyshakespeare_1000/tokenizer.json";  // 1000 tokens
  const test::ScratchFolder folder;
  // Encodes `text` with these tokens listed after <|endoftext|>.
  auto encode = [&](const std::string& added, const std::string& text) {
    std::string json = changed(gpt2, "\"special\": true\n    }", cat("\"special\": true\n    }, ", added));
    write_file_atomic(folder / "tokenizer.json", json);
    HfTokenizer tokenizer(folder / "tokenizer.json", false);
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    CHECK(tokenizer.decode(ids) == text);
    return ids;
  };
  using Ids = std::vector<std::int32_t>;
  CHECK(encode(R"({"id": 1100, "content": "<a>"}, {"id": 1500, "content": "<b>"})", "<a><b><|endoftext|>") ==
        Ids{1000, 1001, 0});
  CHECK(encode(R"({"id": 1001, "content": "<b>"}, {"id": 1000, "content": "<a>"})", "<a><b>") == Ids{1001, 1000});
  CHECK(encode(R"({"id": 3, "content": "<a>"}, {"id": 3, "content": "<b>"})", "<a><b>") == Ids{1000, 1001});
  Ids letter = encode(R"({"id": 1000, "content": "<a>"})", "a");
  CHECK(encode(R"({"id": 1100, "content": "a"}, {"id": 1101, "content": "<b>"})", "a<b>") == Ids{letter[0], 1000});
  // <a> is added twice, and its second properties apply.
  CHECK(encode(R"({"id": 1000, "content": "<a>", "single_word": true}, {"id": 1001, "content": "<b>"},
                  {"id": 1002, "content": "<a>"})",
               "c<a>c<b>") == Ids{encode("{\"id\": 9, \"content\": \"<a>\"}", "c")[0], 1000,
                                  encode("{\"id\": 9, \"content\": \"<a>\"}", "c")[0], 1001});
}

TEST_CASE("tokenizer.json: refuses ids around a text without a token, and tokens that normalization makes equal") {
  const test::ScratchFolder folder;
  auto load = [&](const std::string& json, bool with_special) {
    write_file_atomic(folder / "tokenizer.json", json);
    return HfTokenizer(folder / "tokenizer.json", with_special);
  };
  std::string json = read_file(kLlama3);
  std::size_t ids = json.find("\"ids\"");
  REQUIRE(ids != std::string::npos);
  json.replace(json.find("1997", ids), 4, "2997");
  CHECK_THROWS_WITH_AS(load(json, true), doctest::Contains("adds id 2997 to texts"), Error);
  CHECK(load(json, false).vocab_size() == 2000);

  json = changed(kLlama3, "\"normalizer\": null", R"("normalizer": {"type": "NFC"})");
  std::string both = R"("added_tokens": [{"id": 2000, "content": "xe\u0301", "normalized": true},
                                         {"id": 2001, "content": "x\u00e9", "normalized": true},)";
  json.replace(json.find("\"added_tokens\": ["), 17, both);
  CHECK_THROWS_WITH_AS(load(json, false), doctest::Contains("when normalized"), Error);
}

TEST_CASE("tokenizer.json: RoBERTa's and BERT's post-processors put their tokens around a text") {
  const std::string gpt2 = "golden/tokenizer/hf_saved_tinyshakespeare_1000/tokenizer.json";
  const test::ScratchFolder folder;
  for (const char* type : {"RobertaProcessing", "BertProcessing"}) {
    const std::string json = changed(gpt2, "\"type\": \"TemplateProcessing\",",
                                     cat("\"type\": \"", type, R"(", "sep": ["b", 3], "cls": ["a", 2],)"));
    write_file_atomic(folder / "tokenizer.json", json);
    const std::vector<std::int32_t> plain = HfTokenizer(folder / "tokenizer.json", false).encode("hat");
    std::vector<std::int32_t> around = HfTokenizer(folder / "tokenizer.json", true).encode("hat");
    REQUIRE(around.size() == plain.size() + 2);
    CHECK(around.front() == 2);
    CHECK(around.back() == 3);
    CHECK(std::vector<std::int32_t>(around.begin() + 1, around.end() - 1) == plain);
  }
}

TEST_CASE("tokenizer.json: unsupported features are refused by name") {
  const std::string gpt2 = "golden/tokenizer/hf_saved_tinyshakespeare_1000/tokenizer.json";
  check_refusal(gpt2, "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}", "NFKC");
  check_refusal(gpt2, "\"normalizer\": null",
                R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})", "Lowercase");
  check_refusal(gpt2, "\"type\": \"BPE\"", "\"type\": \"WordPiece\"", "WordPiece");
  check_refusal(gpt2, "\"type\": \"BPE\"", "\"type\": \"Unigram\"", "SentencePiece");
  check_refusal(gpt2, "\"dropout\": null", "\"dropout\": 0.1", "dropout 0.1");
  check_refusal(gpt2, "\"byte_fallback\": false", "\"byte_fallback\": true", "byte_fallback");
  check_refusal(gpt2, "\"end_of_word_suffix\": \"\"", "\"end_of_word_suffix\": \"</w>\"", "end_of_word_suffix");
  check_refusal(gpt2, "\"fuse_unk\": false", "\"fuse_unk\": false, \"novelty\": 3", "novelty 3");
  check_refusal(gpt2, "\"!\": 1", "\"!\": -1", "id -1");
  check_refusal(gpt2, "\"!\": 1", "\"!\": 2", "id 2");
  check_refusal(gpt2, "\"!\": 1", "\"!\": 1, \"!\": 1000", "\"!\" appears twice");
  check_refusal(gpt2, "\"special\": true", "\"special\": true, \"bold\": true", "bold");
  check_refusal(kLlama3, "\"behavior\": \"Isolated\"", "\"behavior\": \"MergedWithNext\"", "MergedWithNext");
  check_refusal(kLlama3, "\"type\": \"Split\"", "\"type\": \"Metaspace\"", "Metaspace");
  check_refusal(kLlama3, "\\\\s+(?!\\\\S)", "\\\\b+(?!\\\\S)", "\\b");
  check_refusal(kLlama3, "\"add_prefix_space\": false", "\"add_prefix_space\": true", "add_prefix_space");
  check_refusal(kLlama3, "\"type\": \"ByteLevel\"", "\"type\": \"Digits\"", "Digits with add_prefix_space");
  CHECK(refusal("[]").find("not a valid tokenizer.json") != std::string::npos);
  CHECK(refusal("{").find("not a valid tokenizer.json") != std::string::npos);
  CHECK(refusal(changed(gpt2, "\"special_tokens\": {}", "\"special_tokens\": []")) == "accepted");
  CHECK(refusal(read_file(gpt2)) == "accepted");
}

TEST_CASE("tokenizer.json: saved truncation and padding do not change ids") {
  const std::string gpt2 = "golden/tokenizer/hf_saved_tinyshakespeare_1000/tokenizer.json";
  const test::ScratchFolder folder;
  std::string json = changed(gpt2, "\"truncation\": null",
                             R"("truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
                                "stride": 0})");
  const std::string null_padding = "\"padding\": null";
  REQUIRE(json.find(null_padding) != std::string::npos);
  json.replace(json.find(null_padding), null_padding.size(),
               R"("padding": {"strategy": {"Fixed": 40}, "direction": "Right", "pad_to_multiple_of": null,
                  "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"})");
  write_file_atomic(folder / "tokenizer.json", json);
  const std::string text = "What light through yonder window breaks?";
  const std::vector<std::int32_t> ids = HfTokenizer(gpt2, false).encode(text);
  CHECK(ids.size() > 2);
  CHECK(HfTokenizer(folder / "tokenizer.json", false).encode(text) == ids);
  write_file_atomic(folder / "tokenizer_config.json",
                    R"({"tokenizer_truncation": {"direction": "right", "max_length": 2, "strategy": "longest_first",
                        "stride": 0}, "tokenizer_padding": {"length": 40, "direction": "right", "pad_id": 0}})");
  CHECK(HfTokenizer(folder / "tokenizer.json", false).encode(text) == ids);
}

TEST_CASE("tokenizer.json: a refusal names the true cause") {
  const std::string gpt2 = "golden/tokenizer/hf_saved_tinyshakespeare_1000/tokenizer.json";
  // The kind of the model comes before what follows from it, such as a normalizer.
  std::string json = changed(gpt2, "\"type\": \"BPE\"", "\"type\": \"WordPiece\"");
  json.replace(json.find("\"normalizer\": null"), 18, "\"normalizer\": {\"type\": \"BertNormalizer\"}");
  CHECK(test::contains(refusal(json), "WordPiece"));
  CHECK_FALSE(test::contains(refusal(json), "BertNormalizer"));
  // A byte-level BPE tokenizer is not refused for being another kind.
  for (const auto& [from, to] : {std::pair("\"dropout\": null", "\"dropout\": 0.1"),
                                 std::pair("\"special\": true", "\"special\": true, \"bold\": true"),
                                 std::pair("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFKC\"}")})
    CHECK_FALSE(test::contains(refusal(changed(gpt2, from, to)), "byte-level"));
  // JSON of another form is named with the part that has it.
  for (const char* part : {"normalizer", "post_processor", "decoder", "model", "added_tokens"}) {
    Json root = Json::parse(read_file(gpt2));
    root.set(part, 3);
    CHECK(test::contains(refusal(root.dump()), cat("tokenizer.json: ", part, ": ")));
  }
}
