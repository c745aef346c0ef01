// The text of a completion appears character by character, also if characters span tokens.
#include "eval/completion_text.h"

#include <doctest/doctest.h>

#include "text/tokenizer.h"

using namespace mtl;

namespace {

const std::string kUnknown(kReplacementCharacter);

std::unique_ptr<Tokenizer> small_tokenizer() {
  const std::string folder = "golden/tokenizer/bpe_tinyshakespeare_1000";
  TokenizerOptions options;
  options.vocab_file = folder + "/vocab.json";
  options.merge_file = folder + "/merges.txt";
  return load_tokenizer(options);
}

}  // namespace

TEST_CASE("completion text: characters appear once they are complete") {
  const auto tokenizer = small_tokenizer();
  const std::vector<std::int32_t> stops;
  const std::string text = " to be \xE4\xBD\xA0";  // the last character has a token for each byte
  const std::vector<std::int32_t> ids = tokenizer->encode(text);
  REQUIRE(ids.size() > 4);
  CompletionText whole(*tokenizer, stops, ids[0]), cut(*tokenizer, stops, ids[0]);
  std::string all;
  for (const std::int32_t id : ids) all += whole.push(id);
  CHECK(all + whole.finish() == text);
  CHECK(whole.finish().empty());
  const std::int32_t first_byte = ids[ids.size() - 3];
  CHECK(cut.push(first_byte).empty());
  CHECK(cut.push(ids[0]) == kUnknown + tokenizer->decode({ids.data(), 1}));
  CHECK(cut.push(first_byte).empty());
  CHECK(cut.finish() == kUnknown);
}

TEST_CASE("completion text: stops have no text, and unknown ids a replacement character") {
  const auto tokenizer = small_tokenizer();
  const std::int32_t a = tokenizer->encode("a")[0], b = tokenizer->encode("b")[0];
  const std::vector<std::int32_t> stops{b};
  const auto unknown = static_cast<std::int32_t>(tokenizer->vocab_size());
  CompletionText text(*tokenizer, stops, unknown);
  CHECK(text.push(a) == "a");
  CHECK(text.push(unknown) == kUnknown);
  CHECK(text.push(b).empty());
  CHECK(text.push(a) == "a");
  CHECK(text.finish().empty());
}
