// Preprocessing: how one mtl-preprocess thread tokenizes lines.
#include "prep/preprocess_batch.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

using Sizes = std::vector<std::size_t>;
using Ids = std::vector<std::int32_t>;

/// Tokenizes the first batch of lines with NullTokenizer. Includes only lines in partition `part`, if there are `parts`
/// partitions.
TokenBatch tokenize(const std::string& text, const PreprocessOptions& options, std::int64_t part = 0,
                    std::int64_t parts = 1, std::int64_t vocab_size = 100) {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "lines.jsonl", text);
  TokenizerOptions numbers;
  numbers.type = "NullTokenizer";
  numbers.vocab_size = vocab_size;
  const auto tokenizer = load_tokenizer(numbers);
  LineReader reader({folder / "lines.jsonl"});
  const auto lines = reader.next();
  REQUIRE(lines);
  return BatchTokenizer(options, *tokenizer).tokenize(*lines, part, parts);
}

Ids ids_of(const TokenColumn& column) {
  return std::visit([](const auto& tokens) { return Ids(tokens.begin(), tokens.end()); }, column.tokens);
}

}  // namespace

TEST_CASE("preprocess: sequences, documents and the end-of-document token") {
  const char* text = "{\"text\": \"1 2\"}\n{\"text\": []}\n{\"text\": [\"3\", \"4 5\"]}\n";
  PreprocessOptions options;
  TokenBatch batch = tokenize(text, options);
  REQUIRE(batch.columns.size() == 1);
  CHECK(batch.documents == 3);
  CHECK(ids_of(batch.columns[0]) == Ids{1, 2, 3, 4, 5});
  CHECK(batch.columns[0].sequence_ends == Sizes{2, 3, 5});
  CHECK(batch.columns[0].document_ends == Sizes{1, 1, 3});
  options.append_eod = true;
  batch = tokenize(text, options);
  CHECK(ids_of(batch.columns[0]) == Ids{1, 2, 99, 3, 4, 5, 99});
  CHECK(batch.columns[0].sequence_ends == Sizes{3, 4, 7});
  CHECK(tokenize(text, options, 1, 2).documents == 1);  // only the second line
}

TEST_CASE("preprocess: a bad line contributes nothing") {
  PreprocessOptions options;
  options.json_keys = {"a", "b"};
  const TokenBatch batch = tokenize("{\"a\": \"1\", \"b\": \"2\"}\n{\"a\": \"3\", \"b\": \"x\"}\n", options);
  CHECK(batch.documents == 1);
  REQUIRE(batch.bad.size() == 1);
  CHECK(batch.bad[0].where.ends_with("lines.jsonl:2"));
  CHECK(ids_of(batch.columns[0]) == Ids{1});
  CHECK(ids_of(batch.columns[1]) == Ids{2});
  CHECK(batch.columns[0].document_ends == Sizes{1});
}

TEST_CASE("preprocess: the vocabulary's size determines the type of the tokens") {
  const char* text = "{\"text\": \"1 65000\"}\n";
  TokenColumn column = tokenize(text, {}, 0, 1, 65499).columns[0];
  CHECK(std::holds_alternative<std::vector<std::uint16_t>>(column.tokens));
  CHECK(ids_of(column) == Ids{1, 65000});
  column = tokenize(text, {}, 0, 1, 65500).columns[0];
  CHECK(std::holds_alternative<std::vector<std::int32_t>>(column.tokens));
  CHECK(ids_of(column) == Ids{1, 65000});
  CHECK(tokenize("{\"text\": \"65536\"}\n", {}, 0, 1, 100).bad.size() == 1);
}
