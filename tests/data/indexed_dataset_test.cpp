#include "data/indexed_dataset.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "base/error.h"

using namespace mtl;

namespace {

/// A folder of this test's own.
struct Folder {
  Folder() : path(cat("/tmp/mtl_data_test.", getpid(), "/")) { make_directories(path); }
  ~Folder() { remove_tree(path); }
  std::string path;
};

std::vector<std::int32_t> read_sequence(const IndexedDataset& data, std::int64_t sequence) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(data.lengths()[sequence]));
  data.read(sequence, 0, out);
  return out;
}

void write_corpus(const std::string& prefix, DataType type) {
  IndexedDatasetWriter writer(prefix, type);
  writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
  writer.add_sequence(std::vector<std::int32_t>{});
  writer.add_sequence(std::vector<std::int32_t>{4});
  writer.end_document();
  writer.end_document();
  writer.add_sequence(std::vector<std::int32_t>{5, 127});
  writer.end_document();
  CHECK(writer.tokens() == 6);
  CHECK(writer.sequences() == 3);
  CHECK(writer.documents() == 3);
  CHECK_FALSE(file_exists(prefix + ".idx"));
  writer.finish();
}

}  // namespace

TEST_CASE("what is written is read again, in every integer type") {
  Folder folder;
  for (const DataType type : {DataType::u8, DataType::i8, DataType::i16, DataType::i32, DataType::i64, DataType::u16}) {
    const std::string prefix = cat(folder.path, name_of(type));
    write_corpus(prefix, type);
    const IndexedDataset data(prefix + ".bin");
    CHECK(data.prefix() == prefix);
    CHECK(data.type() == type);
    CHECK(data.tokens() == 6);
    CHECK(data.bin_bytes() == 6 * item_size(type));
    CHECK(read_sequence(data, 0) == std::vector<std::int32_t>{1, 2, 3});
    CHECK(read_sequence(data, 2) == std::vector<std::int32_t>{5, 127});
    CHECK(data.document_begin(1) == 2);
    CHECK(data.document_begin(2) == 2);
    CHECK(data.document_begin(3) == 3);
    CHECK(data.idx_hash() == hash_file(prefix + ".idx"));
    std::int32_t token = 0;
    data.read(0, 2, {&token, 1});
    CHECK(token == 3);
    CHECK_THROWS_AS(data.read(0, 3, {&token, 1}), Error);
    CHECK_THROWS_AS(data.read(3, 0, {&token, 1}), Error);
  }
}

TEST_CASE("an id that does not fit is an error and leaves no file") {
  Folder folder;
  const std::string prefix = folder.path + "narrow";
  {
    IndexedDatasetWriter writer(prefix, DataType::u16);
    CHECK_THROWS_AS(writer.add_sequence(std::vector<std::int32_t>{65536}), Error);
    CHECK_THROWS_AS(writer.add_sequence(std::vector<std::int32_t>{-1}), Error);
  }
  CHECK(std::filesystem::is_empty(folder.path));
}
