// The table of token formats: what it says is what the recognizer does and what docs/data.md says.
#include "data/token_formats.h"

#include <doctest/doctest.h>

#include "data/merge.h"
#include "tests/data/data_folder.h"
#include "tests/error_of.h"

using namespace mtl;

TEST_CASE("token formats: docs/data.md has the table of mtl-data formats") {
  const std::string page = read_file("../docs/data.md");
  std::size_t at = page.find("| format | recognized by | import | export |\n|---|---|---|---|\n");
  REQUIRE(at != std::string::npos);
  at = page.find("---|\n", at) + 5;
  for (const TokenFormatRow& row : token_formats()) {
    const std::string_view writes = row.writes.empty() ? "nothing" : row.writes;
    const std::string line = cat("| ", row.name, " | ", row.recognized, " | ", row.reads, " | ", writes, " |\n");
    CHECK(page.substr(at, line.size()) == line);
    at += line.size();
    CHECK(name_of(row.format) == row.name);
    CHECK(parse_token_format(row.name) == row.format);
  }
  CHECK(page[at] == '\n');
  CHECK_FALSE(parse_token_format("llm"));
}

TEST_CASE("token formats: files are recognized by their header, and their messages name the conversion") {
  Folder folder;
  const std::string golden = "golden/flat_tokens/";
  const std::pair<const char*, const char*> files[] = {
      {"llm_c_train_000000.bin", "llm.c"}, {"llm_c_llama3.bin", "llm.c"},
      {"llm_c_questions.bin", "llm.c"},    {"llmq.bin", "llmq"},
      {"lit_gpt_i32.bin", "lit-gpt"},      {"npy_u2.npy", "npy"}};
  for (const auto& [name, format] : files) {
    CAPTURE(name);
    const std::string content = read_file(golden + name);
    const auto recognized = recognize_token_file(content.substr(0, kTokenMagicBytes));
    REQUIRE(recognized);
    CHECK(name_of(*recognized) == format);
    const std::string want = cat(golden, name, ": this is a token file of the format ", format,
                                 ", not one of a pair .bin and .idx; convert it: mtl-data import ", golden, name,
                                 " --eod ID --output-prefix NEW, where ID is the end-of-document token");
    CHECK(starts_with(test::error_of([&] { IndexedDataset data(golden + name); }, Exit::bad_data), want));
    // The name without .bin, which --data-path takes.
    if (ends_with(name, ".bin"))
      CHECK(starts_with(test::error_of([&] { IndexedDataset data(dataset_prefix(golden + name)); }, Exit::bad_data),
                        want));
  }
  CHECK(recognize_token_file(std::string_view("MMIDIDX\0\0", 9)) == TokenFormat::megatron);
  for (const std::string_view head : {"", "abc", "\x93NUMP", "BIN.TO", "{\"text\": \"a\"}"})
    CHECK_FALSE(recognize_token_file(head));

  CHECK(
      test::contains(test::error_of([&] { IndexedDataset data(golden + "nanogpt_u16"); }, Exit::io),
                     "nanogpt_u16.idx is missing, but golden/flat_tokens/nanogpt_u16.bin exists; copy the .idx, too"));
  CHECK(
      test::contains(test::error_of([&] { IndexedDataset data("absent.bin"); }, Exit::io), "absent.idx: cannot open"));
  fs::copy(golden + "llmq.bin", folder.path + "llmq.bin");
  CHECK(test::contains(test::error_of([&] { find_token_files(folder.path); }, Exit::bad_data), "of the format llmq"));
}
