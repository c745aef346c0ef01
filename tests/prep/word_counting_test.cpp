// Word counts: counts the words in files with any number of threads.
#include "prep/word_counting.h"

#include <doctest/doctest.h>

#include <map>

#include "base/files.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

std::map<std::string, std::int64_t> count(const std::vector<std::string>& files, VocabOptions options) {
  Console console("test");
  console.quiet = true;
  std::map<std::string, std::int64_t> out;
  const CountedWords counted = count_words(options, files, console);  // owns the words' text
  for (const auto& [text, number] : counted.words.words()) out[std::string(text)] = number;
  return out;
}

}  // namespace

TEST_CASE("words: counts text and JSON lines by name, and refuses more words than allowed") {
  const test::ScratchFolder folder;
  write_file_atomic(folder / "a.txt", "one two one\n");
  write_file_atomic(folder / "b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"three\"}\n");
  const std::vector<std::string> files{folder / "a.txt", folder / "b.jsonl"};
  const std::map<std::string, std::int64_t> want{{"one", 2}, {" two", 1}, {" one", 1}, {"\n", 1}, {"three", 1}};
  for (const int threads : {1, 3}) {
    VocabOptions options;
    options.threads = threads;
    CHECK(count(files, options) == want);
    options.max_words = 4;
    CHECK_THROWS_AS(count(files, options), Error);
  }
  CHECK(holds_json_lines({}, "x.json.gz"));
  CHECK_FALSE(holds_json_lines({}, "x.txt"));
}
