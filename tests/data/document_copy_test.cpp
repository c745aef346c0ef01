#include "data/document_copy.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "base/error.h"
#include "data/divide.h"
#include "data/merge.h"
#include "data/provenance.h"
#include "tests/data/data_folder.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

const CopyProgress kQuiet = [](std::uint64_t) {};

/// Copies a list of documents to new files with the same type as `like`. Checks what the copy reports about these
/// files.
void copy(const std::string& prefix, const IndexedDataset& like, const DocumentList& list, int threads = 2) {
  DocumentCopy out(prefix, like.type(), like.is_multimodal());
  std::uint64_t done = 0;
  out.write(list, threads, [&](std::uint64_t bytes) { done += bytes; });
  CHECK(done == out.written().bin_bytes);
  out.files().commit();
  CHECK(out.written().bin_hash == hash_file(prefix + ".bin"));
  CHECK(out.written().idx_hash == hash_file(prefix + ".idx"));
  CHECK(out.written().bin_bytes == file_size(prefix + ".bin"));
  CHECK(out.written().idx_bytes == file_size(prefix + ".idx"));
  const IndexedDataset copied(prefix);
  CHECK(copied.documents() == out.written().documents);
  CHECK(copied.sequences() == out.written().sequences);
  CHECK(copied.tokens() == out.written().tokens);
}

bool same_files(const std::string& a, const std::string& b) {
  return read_file(a + ".bin") == read_file(b + ".bin") && read_file(a + ".idx") == read_file(b + ".idx");
}

/// Returns random documents with up to three sequences, each 1 to `max_length` tokens long.
Documents random_documents(std::size_t count, std::uint32_t max_length, std::uint32_t seed) {
  std::mt19937 random(seed);
  Documents documents(count);
  for (auto& document : documents) {
    document.resize(random() % 4);
    for (auto& sequence : document) {
      sequence.resize(1 + random() % max_length);
      for (auto& token : sequence) token = static_cast<std::int32_t>(random() % 60000);
    }
  }
  return documents;
}

void append_modes(const std::string& prefix, const std::string& modes) {
  const std::string idx = read_file(prefix + ".idx") + modes;
  std::ofstream(prefix + ".idx", std::ios::binary) << idx;
}

}  // namespace

TEST_CASE("copying all ranges of a data set in order reproduces the data set") {
  Folder folder;
  write_documents(folder.path + "all", DataType::u16, random_documents(500, 2000, 1));
  const IndexedDataset all(folder.path + "all");
  copy(folder.path + "whole", all, list_of({{&all, 0, 500}}));
  CHECK(same_files(folder.path + "whole", folder.path + "all"));
  copy(folder.path + "ranges", all, list_of({{&all, 0, 3}, {&all, 3, 3}, {&all, 3, 17}, {&all, 17, 500}}));
  CHECK(same_files(folder.path + "ranges", folder.path + "all"));
  const DocumentList singles{500, [&](std::int64_t i) { return DocumentRange{&all, i, i + 1}; }};
  copy(folder.path + "singles", all, singles, 3);
  CHECK(same_files(folder.path + "singles", folder.path + "all"));
}

TEST_CASE("documents are copied whole in any order, with any number of threads") {
  Folder folder;
  const Documents documents = random_documents(3000, 5000, 2);  // does not fit into one buffer
  write_documents(folder.path + "all", DataType::i32, documents);
  const IndexedDataset all(folder.path + "all");
  const auto order = shuffled_documents(3000, 7);
  const DocumentList list{3000, [&](std::int64_t i) {
                            const std::int64_t document = order[static_cast<std::size_t>(i)];
                            return DocumentRange{&all, document, document + 1};
                          }};
  copy(folder.path + "one", all, list, 1);
  copy(folder.path + "many", all, list, 5);
  CHECK(same_files(folder.path + "one", folder.path + "many"));
  const Documents shuffled = read_documents(folder.path + "one");
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(shuffled[i] == documents[order[i]]);
}

TEST_CASE("a sequence larger than every buffer is copied") {
  Folder folder;
  std::vector<std::int32_t> tokens(9'000'000);
  std::iota(tokens.begin(), tokens.end(), 0);
  write_documents(folder.path + "large", DataType::i32, {{{1}}, {tokens}, {{2, 3}}});
  const IndexedDataset all(folder.path + "large");
  copy(folder.path + "copy", all, list_of({{&all, 0, 1}, {&all, 1, 2}, {&all, 2, 3}}));
  CHECK(same_files(folder.path + "copy", folder.path + "large"));
}

TEST_CASE("modes follow their sequences, and mixed types or modes are refused") {
  Folder folder;
  write_documents(folder.path + "modal", DataType::u16, {{{1}, {2}}, {}, {{3}}});
  append_modes(folder.path + "modal", "\1\2\3");
  write_documents(folder.path + "plain", DataType::u16, {{{1}}});
  write_documents(folder.path + "wide", DataType::i32, {{{1}}});
  write_documents(folder.path + "empty", DataType::u16, {{}, {}});
  std::vector<std::unique_ptr<IndexedDataset>> data;
  for (const char* name : {"modal", "empty", "plain", "wide"}) {
    data.push_back(std::make_unique<IndexedDataset>(folder.path + name));
  }
  copy(folder.path + "reordered", *data[0],
       list_of({{data[0].get(), 2, 3}, {data[1].get(), 0, 2}, {data[0].get(), 0, 2}}));
  const IndexedDataset reordered(folder.path + "reordered");
  REQUIRE(reordered.is_multimodal());
  CHECK(reordered.documents() == 5);
  CHECK(read_file(folder.path + "reordered.idx").ends_with("\3\1\2"));

  const auto mergeable = [&](std::initializer_list<int> picks, std::optional<DataType> type = {}) {
    std::vector<std::unique_ptr<IndexedDataset>> inputs;
    for (const int pick : picks) {
      inputs.push_back(std::make_unique<IndexedDataset>(data[static_cast<std::size_t>(pick)]->prefix()));
    }
    return check_mergeable(inputs, type);
  };
  CHECK(mergeable({0, 1}).has_modes);
  CHECK(mergeable({1, 0}).has_modes);
  CHECK_FALSE(mergeable({1, 2}).has_modes);
  CHECK_THROWS_WITH_AS(mergeable({2, 0}), doctest::Contains("modal.idx has modes (multimodal), but"), Error);
  CHECK_THROWS_WITH_AS(mergeable({2, 3}), doctest::Contains("wide.idx stores tokens as i32, but"), Error);
  CHECK_THROWS_WITH_AS(mergeable({2, 3}), doctest::Contains("add --token-type i32"), Error);
  for (const auto& [like, from, what] : {std::tuple(2, 0, "has modes (multimodal)"), {0, 2, "has no modes"}})
    CHECK(test::contains(test::error_of([&] {
                           copy(folder.path + "x", *data[like], list_of({{data[from].get(), 0, 1}}));
                         }),
                         what));
  // The type that holds both, if there is one.
  for (const auto& [a, b, remedy] : {std::tuple(DataType::u8, DataType::i8, "--token-type i32"),
                                     {DataType::u8, DataType::u16, "--token-type u16"},
                                     {DataType::i32, DataType::i64, "--token-type i64"}}) {
    write_documents(folder.path + "one", a, {{{1}}});
    write_documents(folder.path + "two", b, {{{1}}});
    std::vector<std::unique_ptr<IndexedDataset>> inputs;
    for (const char* name : {"one", "two"}) inputs.push_back(std::make_unique<IndexedDataset>(folder.path + name));
    CHECK(test::error_of([&] { check_mergeable(inputs, {}); }, Exit::bad_data).ends_with(remedy));
  }
  std::string idx = read_file(folder.path + "two.idx");
  idx[17] = 6;  // f64
  std::ofstream(folder.path + "two.idx", std::ios::binary) << idx;
  for (const auto& names : {std::array{"one", "two"}, {"two", "one"}}) {
    std::vector<std::unique_ptr<IndexedDataset>> inputs;
    for (const char* name : names) inputs.push_back(std::make_unique<IndexedDataset>(folder.path + name));
    CHECK(test::contains(test::error_of([&] { check_mergeable(inputs, {}); }, Exit::bad_data), "floats are not"));
  }
  CHECK(mergeable({2, 3}, DataType::i32).type == DataType::i32);
  CHECK_FALSE(file_exists(folder.path + "x.bin"));
}

TEST_CASE("merged files record a tokenizer only if all inputs were made with it") {
  Folder folder;
  std::vector<std::unique_ptr<IndexedDataset>> data;
  for (const char* name : {"a", "b", "other"}) {
    const std::string prefix = folder.path + name;
    write_documents(prefix, DataType::u16, {{{1}}});
    const Json tokenizer = Json::object({{"xxh3", name == std::string("other") ? "2" : "1"}});
    const Json output = Json::object({});
    write_file_atomic(prefix + ".json", make_provenance("test", {}, tokenizer, Json::array(), output).dump());
    data.push_back(std::make_unique<IndexedDataset>(prefix));
  }
  CHECK(common_tokenizer({data[0].get(), data[1].get()}).string_or("xxh3", "") == "1");
  CHECK(common_tokenizer({data[0].get(), data[2].get()}).is_null());
  fs::remove(folder.path + "b.json");
  CHECK(common_tokenizer({data[0].get(), data[1].get()}).is_null());
}

TEST_CASE("tokens of other types are converted, and those that do not fit are refused with their location") {
  Folder folder;
  const Documents documents = {{{1, 2}, {127}}, {}, {{3}}};
  for (int code = 1; code <= 8; ++code) {
    const auto from = static_cast<DataType>(code);
    if (!is_integer(from)) continue;
    const std::string prefix = cat(folder.path, name_of(from));
    write_documents(prefix, from, documents);
    const IndexedDataset data(prefix);
    for (int other = 1; other <= 8; ++other) {
      const auto to = static_cast<DataType>(other);
      if (!is_integer(to)) continue;
      const std::string converted = cat(prefix, "_as_", name_of(to)), written = cat(prefix, "_want");
      DocumentCopy out(converted, to, false);
      std::uint64_t done = 0;
      out.write(list_of({{&data, 0, 1}, {&data, 1, 3}}), 2, [&](std::uint64_t bytes) { done += bytes; });
      CHECK(done == out.written().bin_bytes);
      out.files().commit();
      write_documents(written, to, documents);
      CHECK(same_files(converted, written));
    }
  }

  // Converted tokens stay in order among copied ones.
  const IndexedDataset wide(folder.path + "i32"), narrow(folder.path + "u16");
  DocumentCopy mixed(folder.path + "mixed", DataType::i32, false);
  mixed.write(list_of({{&wide, 0, 1}, {&narrow, 2, 3}, {&wide, 0, 3}, {&narrow, 0, 1}}), 2, kQuiet);
  mixed.files().commit();
  CHECK(read_documents(folder.path + "mixed") ==
        Documents{documents[0], documents[2], documents[0], documents[1], documents[2], documents[0]});

  // Longer than a block of conversion. The location is right in a later block and in a later range.
  std::vector<std::int32_t> tokens(300'000, 65535);
  tokens[299'998] = 65536;
  write_documents(folder.path + "large", DataType::i32, {{{-1}}, {tokens}});
  const IndexedDataset large(folder.path + "large");
  const auto message = [&](DataType type, std::int64_t begin) {
    return test::error_of(
        [&] {
          DocumentCopy out(folder.path + "x", type, false);
          out.write(list_of({{&large, begin, 2}}), 1, kQuiet);
        },
        Exit::bad_data);
  };
  CHECK(message(DataType::u16, 1) == folder.path +
                                         "large.bin: token 299998 of sequence 1, in document 1, is 65536, which does "
                                         "not fit in u16 (byte 1199996); choose a larger --token-type");
  CHECK(test::contains(message(DataType::u16, 0), "token 0 of sequence 0, in document 0, is -1, which"));
  CHECK(test::contains(message(DataType::f32, 1), "stores i32 values, which cannot be converted to f32"));
  CHECK_FALSE(file_exists(folder.path + "x.bin"));
}

TEST_CASE("an uncommitted copy leaves no files") {
  Folder folder;
  write_documents(folder.path + "all", DataType::u16, {{{1, 2}}});
  const IndexedDataset all(folder.path + "all");
  {
    DocumentCopy out(folder.path + "gone", DataType::u16, false);
    const CopyProgress stop = [](std::uint64_t) { fail(Exit::failure, "stop"); };
    CHECK_THROWS_WITH_AS(out.write(list_of({{&all, 0, 1}}), 1, stop), "stop", Error);
  }
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);
}

TEST_CASE("the token files of a folder are listed by name in byte order") {
  Folder folder;
  for (const char* name : {"b", "a10", "a9", "B", "\xC3\xA9", "a.b"}) {
    write_documents(folder.path + name, DataType::u16, {{{1}}});
  }
  std::ofstream(folder.path + "a9.json") << "{}";
  std::ofstream(folder.path + "notes.txt") << "x";
  make_directories(folder.path + "c.bin");
  std::vector<std::string> names;
  for (const std::string& prefix : find_token_files(folder.path)) names.push_back(fs::path(prefix).filename());
  CHECK(names == std::vector<std::string>{"B", "a.b", "a10", "a9", "b", "\xC3\xA9"});
  fs::remove(folder.path + "b.idx");
  CHECK_THROWS_WITH_AS(find_token_files(folder.path), doctest::Contains("b.idx is missing"), Error);
  make_directories(folder.path + "none");
  CHECK_THROWS_WITH_AS(find_token_files(folder.path + "none"), doctest::Contains("has no token files"), Error);
  CHECK_THROWS_AS(find_token_files(folder.path + "absent"), Error);
}
