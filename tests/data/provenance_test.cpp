// PREFIX.json: which files count as one, what is compared with the token files, and what new token files record.
#include "data/provenance.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/hash.h"
#include "data/indexed_checks.h"
#include "data/make_token_files.h"
#include "data_folder.h"
#include "tests/error_of.h"

using namespace mtl;
using test::contains;

namespace {

Console muted_console() {
  Console console("test");
  console.quiet = true;
  return console;
}

std::string hash_of_file(const std::string& path) { return hash_text(hash_file(path)); }

}  // namespace

TEST_CASE("provenance: only an object of its schema counts; a broken one is a fault, and a corpus is not") {
  Folder folder;
  const std::string prefix = folder.path + "a";
  struct Case {
    std::string text;
    bool is_read;
    bool is_fault;
  };
  const std::string good = R"({"schema": "mtl-provenance/1", "tokenizer": {"vocab_size": 3}})";
  const Case cases[] = {{good, true, false},
                        {R"({"schema": "mtl-provenance/2"})", false, false},
                        {R"({"text": "x"})", false, false},
                        {"[1]", false, false},
                        {"{\"text\": \"x\"}\n{\"text\": \"y\"}\n", false, false},
                        {"{\"text\": \"x", false, true},
                        {"x", false, true},
                        {"1 2", false, true},
                        {"{\"text\": \"mtl-provenance/1\"}\n{}", false, true},
                        {good.substr(0, good.size() - 1), false, true},
                        {R"({"schema": "mtl-provenance/1", "tokenizer": {"vocab_size": "3"}})", false, true},
                        {R"({"schema": "mtl-provenance/1", "tokenizer": {"type": 3}})", false, true},
                        {R"({"schema": "mtl-provenance/1", "tokenizer": {"xxh3": 3}})", false, true},
                        {R"({"schema": "mtl-provenance/1", "output": {"idx_xxh3": 3}})", false, true},
                        {R"({"schema": "mtl-provenance/1", "output": {"bin_xxh3": 3}})", false, true},
                        {R"({"schema": "mtl-provenance/1", "output": [], "tokenizer": null})", true, false}};
  for (const auto& [text, is_read, is_fault] : cases) {
    CAPTURE(text);
    write_file_atomic(prefix + ".json", text);
    CHECK(read_provenance(prefix).has_value() == is_read);
    CHECK(contains(provenance_fault(prefix), "a.json: the file is broken: ") == is_fault);
    CHECK(provenance_fault(prefix).empty() == !is_fault);
  }
  fs::resize_file(prefix + ".json", (64 << 20) + 1);
  CHECK(provenance_fault(prefix).empty());
  fs::remove(prefix + ".json");
  CHECK(provenance_fault(prefix).empty());
  fs::create_symlink("nowhere", prefix + ".json");
  CHECK_FALSE(provenance_fault(prefix).empty());
}

TEST_CASE("provenance: each number and each hash that is recorded is compared") {
  Folder folder;
  const std::string prefix = folder.path + "a", path = prefix + ".json";
  write_documents(prefix, DataType::u16, {{{1, 2}, {3}}, {{4}}});
  const IndexedDataset data(prefix);
  CHECK(check_provenance(data) == ProvenanceCheck::none);
  const auto check = [&](const Json& output) {
    write_file_atomic(path, make_provenance("p", {"p", "x"}, {}, Json::array(), output).dump());
    return check_provenance(data);
  };
  const Json counts = Json::object({{"dtype", "u16"}, {"documents", 2}, {"sequences", 3}, {"tokens", 4}});
  CHECK(check(Json()) == ProvenanceCheck::foreign);
  CHECK(check(Json::array()) == ProvenanceCheck::foreign);
  CHECK(check(Json::object()) == ProvenanceCheck::counts);
  CHECK(check(counts) == ProvenanceCheck::counts);
  const std::string idx = hash_of_file(prefix + ".idx"), bin = hash_of_file(prefix + ".bin");
  CHECK(check(Json(counts).set("idx_xxh3", idx)) == ProvenanceCheck::counts);
  CHECK(check(Json(counts).set("bin_xxh3", bin)) == ProvenanceCheck::counts);
  CHECK(check(Json(counts).set("idx_xxh3", idx).set("bin_xxh3", bin)) == ProvenanceCheck::content);
  const std::pair<const char*, Json> wrongs[] = {{"dtype", "i32"}, {"documents", 1},  {"sequences", 4},
                                                 {"tokens", 5},    {"idx_xxh3", bin}, {"bin_xxh3", idx}};
  for (const auto& [key, value] : wrongs) {
    CAPTURE(key);
    try {
      check(Json(counts).set(key, value));
      FAIL_CHECK("accepted");
    } catch (const BrokenRule& rule) {
      const bool is_hash = contains(key, "xxh3");
      CHECK(rule.violation().rule == (is_hash ? "hash" : "provenance"));
      CHECK(rule.violation().file == (is_hash ? cat(prefix, ".", std::string(key, 3)) : path));
      if (!is_hash) CHECK(rule.violation().offset == read_file(path).find(cat('"', key, '"')));
    }
  }
  write_file_atomic(path, "{}");
  CHECK(check_provenance(data) == ProvenanceCheck::foreign);
  CHECK(make_provenance("p", {"p", "x"}, {}, Json::array().push(1), counts).dump() ==
        cat(R"({"schema": "mtl-provenance/1", "program": "p", "version": )",
            make_provenance("", {}, {}, {}, {}).at("version").dump(),
            R"(, "command": ["p", "x"], "inputs": [1], "output": )", counts.dump(), "}"));
}

TEST_CASE("token files: made ones record their inputs, and never overwrite them") {
  Folder folder;
  const std::string first = folder.path + "a", second = folder.path + "b", out = folder.path + "sub/out";
  write_documents(first, DataType::u16, {{{1, 2}, {3}}, {{4}}});
  write_documents(second, DataType::u16, {{{5}}});
  const IndexedDataset a(first), b(second);
  Console console = muted_console();
  const std::vector<const IndexedDataset*> inputs = {&a, &b};
  const auto make = [&](const std::string& prefix, const std::string& config_file = "") {
    return make_token_files({.command = {"mtl-data", "merge"}, .config_file = config_file}, inputs,
                            {.type = DataType::i32, .has_modes = false}, {{prefix, list_of({{&b, 0, 1}, {&a, 0, 2}})}},
                            console);
  };
  const TokenFilesMade made = make(out);
  CHECK(made.seconds >= 0);
  CHECK(made.seconds < 60);
  CHECK(read_documents(out) == Documents{{{5}}, {{1, 2}, {3}}, {{4}}});
  REQUIRE(made.outputs.size() == 1);
  const Json expected = Json::object({{"prefix", out},
                                      {"documents", 3},
                                      {"sequences", 4},
                                      {"tokens", 5},
                                      {"dtype", "i32"},
                                      {"bin_bytes", 20},
                                      {"bin_xxh3", hash_of_file(out + ".bin")},
                                      {"idx_bytes", fs::file_size(out + ".idx")},
                                      {"idx_xxh3", hash_of_file(out + ".idx")}});
  CHECK(made.outputs[0].dump() == expected.dump());
  const Json provenance = *read_provenance(out);
  CHECK(provenance.at("output") == expected);
  CHECK(provenance.at("program") == Json("mtl-data"));
  CHECK(provenance.at("command") == Json::array().push("mtl-data").push("merge"));
  Json sources = Json::array();
  for (const std::string& file : {first + ".bin", first + ".idx", second + ".bin", second + ".idx"})
    sources.push(describe_input(file, fs::file_size(file), hash_file(file)));
  CHECK(provenance.at("inputs") == sources);
  CHECK(check_provenance(IndexedDataset(out)) == ProvenanceCheck::content);
  CHECK_FALSE(test::error_of([&] { make(first); }).empty());
  write_file_atomic(folder.path + "c.json", "{}");
  CHECK_FALSE(test::error_of([&] { make(folder.path + "c", folder.path + "c.json"); }).empty());
  CHECK(read_documents(first).size() == 2);
  CHECK_FALSE(file_exists(folder.path + "c.bin"));

  require_space(folder.path + "x", 1);
  CHECK(contains(test::error_of([&] { require_space(folder.path + "x", UINT64_MAX); }, Exit::io), "x needs "));
}
