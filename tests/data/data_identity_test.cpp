#include "data/data_identity.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/error.h"
#include "tests/data/data_folder.h"
#include "tests/data/finish.h"

using namespace mtl;

namespace {

void write_tokens(const std::string& prefix, std::int32_t token, std::size_t count) {
  IndexedDatasetWriter writer(prefix, DataType::u16);
  writer.add_sequence(std::vector<std::int32_t>(count, token));
  writer.end_document();
  test::finish(writer);
}

void flip_byte(const std::string& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

}  // namespace

TEST_CASE("a changed file has another identity, a moved file keeps it") {
  const Folder folder;
  const std::string one = folder.path + "one", moved = folder.path + "moved", prefix = folder.path + "large";
  write_tokens(one, 5, 1000);
  write_tokens(moved, 5, 1000);
  const Json before = file_identity(IndexedDataset(one));
  CHECK(data_difference(before, file_identity(IndexedDataset(moved))).empty());
  flip_byte(moved + ".bin", 1999);  // same size, same .idx
  CHECK(data_difference(before, file_identity(IndexedDataset(moved))).find("moved: bin_hash is") != std::string::npos);
  write_tokens(moved, 5, 1001);
  CHECK(data_difference(before, file_identity(IndexedDataset(moved))).find("moved: bin_bytes is 2002") !=
        std::string::npos);

  // A large file's identity covers its first and last block, and more than a thousand blocks in between.
  write_tokens(prefix, 7, 3'000'000);
  const std::uint64_t whole = sample_hash(MappedFile(prefix + ".bin"));
  for (const std::int64_t at : {0, 5'999'999}) {
    flip_byte(prefix + ".bin", at);
    CHECK(sample_hash(MappedFile(prefix + ".bin")) != whole);
    flip_byte(prefix + ".bin", at);
  }
  CHECK(sample_hash(MappedFile(prefix + ".bin")) == whole);

  // Checkpoints store these hashes.
  std::string bytes(6'000'001, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i / 4096 * 37 + i);
  const auto hash_of = [&](std::size_t size) {
    write_file_atomic(folder.path + "bytes", bytes.substr(0, size));
    return hash_text(sample_hash(MappedFile(folder.path + "bytes")));
  };
  CHECK(hash_of(bytes.size()) == "9f961c8cfffadd18");
  for (const std::size_t size : {0, 10, 10'000}) {
    const std::string hash = hash_of(size);
    CHECK(hash == hash_text(hash_file(folder.path + "bytes")));
  }
}

TEST_CASE("swapped, missing and reordered data sets are reported") {
  const auto file = [](const char* hash) {
    return Json::object({{"path", hash}, {"bin_bytes", 1}, {"idx_hash", hash}});
  };
  const auto data = [&](std::vector<const char*> hashes, const char* seed) {
    Json files = Json::array();
    for (const char* hash : hashes) files.push(file(hash));
    return Json::object({{"files", files}, {"order", Json::object({{"--seed", seed}})}});
  };
  CHECK(data_difference(data({"a", "b"}, "1"), data({"a", "b"}, "1")).empty());
  CHECK(data_difference(data({"a", "b"}, "1"), data({"b", "a"}, "1")) ==
        "b: idx_hash is \"b\", but was \"a\" (a); a: idx_hash is \"a\", but was \"b\" (b)");
  CHECK(data_difference(data({}, "1"), data({"a"}, "1")) ==
        "tokens are read from files, but were generated (--mock-data)");
  CHECK(data_difference(data({"a"}, "1"), data({}, "1")) ==
        "tokens are generated (--mock-data), but were read from files");
  // Only what both have is compared.
  const Json more = file("a").set("idx_bytes", 5).set("bin_hash", "x");
  CHECK(data_difference(file("a"), more).empty());
  CHECK(data_difference(more, file("a")).empty());
  CHECK(data_difference(more, file("a").set("idx_bytes", 6)) == "a: idx_bytes is 6, but was 5 (a)");
  const Json with_order = data({"a"}, "1").set("order", Json::object({{"--seed", "1"}, {"--new", 1}}));
  CHECK(data_difference(data({"a"}, "1"), with_order).empty());
  CHECK(data_difference(with_order, data({"a"}, "1")).empty());
  CHECK(data_difference(data({"a", "b"}, "1"), data({"a"}, "1")) == "1 data set, but there were 2");
  CHECK(data_difference(data({"a"}, "1"), data({"a"}, "2")) == "--seed is \"2\", but was \"1\"");
  CHECK(data_difference(file("a"), data({"a"}, "2")).empty());  // from an older checkpoint
  CHECK_FALSE(data_difference(file("b"), data({"a"}, "2")).empty());
}
