// Files beside a model's weights: which are copied, and what they say about the end of a text.
#include "models/companion_files.h"

#include <doctest/doctest.h>

#include "tests/ckpt/ckpt_fixtures.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("companion files: exactly these are copied, unchanged, and must be regular files") {
  const std::vector<std::string> names = {"tokenizer.json",
                                          "tokenizer_config.json",
                                          "vocab.json",
                                          "merges.txt",
                                          "special_tokens_map.json",
                                          "added_tokens.json",
                                          "generation_config.json",
                                          "tokenizer.model",
                                          "tokenizer.tiktoken",
                                          "tiktoken_config.json",
                                          "chat_template.jinja"};
  const ScratchFolder scratch;
  make_directories(scratch / "from");
  make_directories(scratch / "to");
  write_text(scratch / "from/config.json", "{}");
  CHECK_FALSE(is_companion_file("config.json"));
  CHECK(copy_companion_files(scratch / "from", scratch / "to").empty());
  for (const std::string& name : names) {
    CHECK(is_companion_file(name));
    write_text(scratch / ("from/" + name), "text of " + name);
  }
  check_companion_files(scratch / "from");
  CHECK(copy_companion_files(scratch / "from", scratch / "to") == names);
  for (const std::string& name : names) {
    CHECK(read_file(scratch / ("to/" + name)) == "text of " + name);
    fs::remove(scratch / ("from/" + name));
    make_directories(scratch / ("from/" + name));
    CHECK(contains(error_of([&] { check_companion_files(scratch / "from"); }, Exit::io), name + " is not a regular"));
    fs::remove(scratch / ("from/" + name));
  }
  CHECK(std::distance(fs::directory_iterator(scratch / "to"), {}) == std::ssize(names));
}

TEST_CASE("companion files: <|endoftext|> is an added token of tokenizer.json, or an entry of vocab.json") {
  struct Case {
    const char *tokenizer, *vocabulary;  // "": no such file
    std::optional<std::int64_t> id;
  };
  const char* added =
      R"({"added_tokens": [{"id": 3}, {"content": "<s>", "id": 4}, {"content": "<|endoftext|>", "id": 5}]})";
  const Case cases[] = {{"", "", {}},
                        {added, "", 5},
                        {added, R"({"<|endoftext|>": 6})", 5},
                        {"", R"({"a": 0, "<|endoftext|>": 6})", 6},
                        {R"({"added_tokens": null})", R"({"<|endoftext|>": 6})", 6},
                        {R"({"added_tokens": ["<|endoftext|>"]})", R"({"a": 0})", {}},
                        {"{}", R"(["<|endoftext|>"])", {}}};
  for (const Case& one : cases) {
    CAPTURE(one.tokenizer);
    CAPTURE(one.vocabulary);
    const ScratchFolder scratch;
    if (*one.tokenizer != '\0') write_text(scratch / "tokenizer.json", one.tokenizer);
    if (*one.vocabulary != '\0') write_text(scratch / "vocab.json", one.vocabulary);
    CHECK(find_end_of_text_id(scratch.path()) == one.id);
  }
}

TEST_CASE("companion files: eos_token_id is a number, a list of numbers, null or absent") {
  using Ids = std::vector<std::int64_t>;
  const ScratchFolder scratch;
  CHECK(generation_eos_ids(scratch.path()).empty());
  for (const auto& [config, ids] :
       std::initializer_list<std::pair<const char*, Ids>>{{"{}", {}},
                                                          {"[7]", {}},
                                                          {R"({"eos_token_id": null})", {}},
                                                          {R"({"eos_token_id": 7})", {7}},
                                                          {R"({"eos_token_id": []})", {}},
                                                          {R"({"eos_token_id": [7, 2]})", {7, 2}}}) {
    CAPTURE(config);
    CHECK(eos_ids(Json::parse(config)) == ids);
    write_text(scratch / "generation_config.json", config);
    CHECK(generation_eos_ids(scratch.path()) == ids);
  }
  for (const char* config :
       {R"({"eos_token_id": "7"})", R"({"eos_token_id": [7, null]})", R"({"eos_token_id": 0.5})"}) {
    CAPTURE(config);
    write_text(scratch / "generation_config.json", config);
    CHECK(contains(error_of([&] { generation_eos_ids(scratch.path()); }, Exit::bad_data),
                   "generation_config.json: eos_token_id is "));
  }
}
