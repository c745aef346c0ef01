// Companion files: the files next to a tokenizer.json have the same effect as in transformers.
#include "text/hf_companions.h"

#include <doctest/doctest.h>

#include <map>

#include "base/error.h"
#include "tests/scratch_folder.h"
#include "tests/text/golden.h"
#include "text/hf_tokenizer.h"

using namespace mtl;

namespace {

/// A folder with one case's files.
class CaseFolder {
 public:
  CaseFolder(const Json& base, const Json& item) {
    Json tokenizer = base;
    for (const auto& [key, value] : item.at("tokenizer").as_object()) tokenizer.set(key, value);
    write_file_atomic(file("tokenizer.json"), tokenizer.dump());
    for (const auto& [name, content] : item.at("files").as_object()) write_file_atomic(file(name), content.dump());
  }
  std::string file(const std::string& name) const { return folder_ / name; }

 private:
  test::ScratchFolder folder_;
};

/// Returns a text's ids, or nullopt if the text is rejected because Hugging Face's library aborts.
std::optional<std::vector<std::int32_t>> encode(const HfTokenizer& tokenizer, const std::string& text) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_data);
    CHECK(std::string(error.what()).find("library aborts") != std::string::npos);
    return {};
  }
}

enum class Outcome { same_ids, refused, refused_by_both };

Outcome compare(const Json& base, const Json& item) {
  const CaseFolder folder(base, item);
  std::optional<HfTokenizer> tokenizer;
  std::string refusal;
  try {
    tokenizer.emplace(folder.file("tokenizer.json"), false);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::bad_data);
    refusal = error.what();
  }
  CAPTURE(refusal);
  if (item.find("raises") != nullptr) {
    CHECK_FALSE(tokenizer);
    return Outcome::refused_by_both;
  }
  // Expects an error for files that enlarge the vocabulary, files that a transformers tokenizer class would number
  // differently, and two tokens that become equal by normalization.
  if (!tokenizer) {
    const bool enlarges = refusal.find("does not have") != std::string::npos;
    const bool is_renumbered = refusal.find("of transformers would number it differently") != std::string::npos;
    const bool has_twins = refusal.find("when normalized") != std::string::npos;
    CHECK((is_renumbered || enlarges || has_twins));
    if (enlarges) CHECK(item.at("grows").as_int() > 0);
    return Outcome::refused;
  }
  CHECK(item.at("grows").as_int() == 0);
  if (!item.at("end").is_null()) CHECK(tokenizer->eod() == item.at("end").as_int());
  const Json::Array &texts = item.at("texts").as_array(), &expected = item.at("ids").as_array();
  REQUIRE(texts.size() == expected.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i].as_string());
    const auto ids = encode(*tokenizer, texts[i].as_string());
    CHECK(ids.has_value() == !expected[i].is_null());
    if (!ids || expected[i].is_null()) continue;
    std::string got;
    for (const std::int32_t id : *ids) got += cat(got.empty() ? "[" : ", ", id);
    CHECK(got + (got.empty() ? "[]" : "]") == expected[i].dump());
  }
  return Outcome::same_ids;
}

}  // namespace

TEST_CASE("the files next to tokenizer.json yield transformers' ids or a refusal by name") {
  const Json base = Json::read("golden/hf_companions/tokenizer.json");
  std::map<Outcome, int> outcomes;
  int aborts = 0;
  for (const Json& item : golden_lines("golden/hf_companions/cases.jsonl")) {
    CAPTURE(item.at("name").as_string());
    ++outcomes[compare(base, item)];
    if (const Json* ids = item.find("ids")) {
      for (const Json& of_text : ids->as_array()) aborts += of_text.is_null();
    }
  }
  MESSAGE(outcomes[Outcome::same_ids], " same, ", outcomes[Outcome::refused], " refused, ",
          outcomes[Outcome::refused_by_both], " refused by transformers too, ", aborts,
          " texts that abort the library");
  CHECK(outcomes[Outcome::same_ids] >= 100);
  CHECK(outcomes[Outcome::refused_by_both] >= 3);
  CHECK(aborts >= 1);
}
